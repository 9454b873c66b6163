// Registers the op with torch, and hands its tensors to the kernels as pointers.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>
[% include "projects/parts/device_headers.cpp" %]

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

[% include "projects/parts/float_types.cpp" %]

[% include "projects/parts/call.cpp" %]

void [[ module ]]_out_op(at::Tensor& out, const at::Tensor& input) {
  TORCH_CHECK(out.sizes() == input.sizes(), "[[ module ]]: out has shape ", out.sizes(), ", input ", input.sizes());
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), "[[ module ]]: out is ", out.scalar_type(), ", input ",
              input.scalar_type());
  TORCH_CHECK(out.device() == input.device(), "[[ module ]]: out is on ", out.device(), ", input on ", input.device());
  TORCH_CHECK(out.is_contiguous(), "[[ module ]]: out must be contiguous");
  const kernel::Type type = type_of(input);
  const bool dense = input.is_contiguous() || input.dim() > kernel::kMaxDims;
  const at::Tensor from = dense ? input.contiguous() : input;
  at::assert_no_partial_overlap(out, from);
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

at::Tensor [[ module ]]_op(const at::Tensor& input) {
  at::Tensor out = at::empty_like(input, {}, at::MemoryFormat::Contiguous);
  [[ module ]]_out_op(out, input);
  return out;
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  // Its backward is in the Python package.
  ops.def("[[ module ]](Tensor input) -> Tensor");
[% include "projects/parts/implementations.cpp" %]
  ops.def("[[ module ]]_out(Tensor! out, Tensor input) -> ()");
  ops.impl("[[ module ]]_out", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
[% set suffix = "_out" %]
[% include "projects/parts/implementations.cpp" %]
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
