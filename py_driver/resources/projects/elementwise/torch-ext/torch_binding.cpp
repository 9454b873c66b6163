// Registers the op with torch, and hands its tensors to the kernels as pointers.
#include <ATen/core/Tensor.h>
#include <torch/library.h>
[% include "projects/parts/gpu_headers.cpp" %]

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

[% include "projects/parts/float_types.cpp" %]

[% include "projects/parts/call.cpp" %]

void [[ module ]]_op(at::Tensor& out, const at::Tensor& input) {
  TORCH_CHECK(out.sizes() == input.sizes(), "[[ module ]]: out has shape ", out.sizes(), ", input ", input.sizes());
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), "[[ module ]]: out is ", out.scalar_type(), ", input ",
              input.scalar_type());
  TORCH_CHECK(out.device() == input.device(), "[[ module ]]: out is on ", out.device(), ", input on ", input.device());
  TORCH_CHECK(out.is_contiguous(), "[[ module ]]: out must be contiguous");
  const kernel::Type type = type_of(input);
  const bool dense = input.is_contiguous() || input.dim() > kernel::kMaxDims;
  const at::Tensor from = dense ? input.contiguous() : input;
  kernel::Layout layout = {};
  if (!dense) {
    layout.dims = static_cast<int>(from.dim());
    for (int dim = 0; dim < layout.dims; ++dim) {
      layout.sizes[dim] = from.size(dim);
      layout.strides[dim] = from.stride(dim);
    }
  }
  call(from, [&](void* stream) {
    return kernel::run(type, out.data_ptr(), from.const_data_ptr(), dense ? nullptr : &layout, from.numel(), stream);
  });
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("[[ module ]](Tensor! out, Tensor input) -> ()");
[% include "projects/parts/implementations.cpp" %]
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
