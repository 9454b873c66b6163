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

void [[ module ]]_out_op(at::Tensor& out, const at::Tensor& input, std::int64_t variant) {
  TORCH_CHECK(input.dim() > 0, "[[ module ]]: the input has no rows");
  TORCH_CHECK(out.sizes() == input.sizes(), "[[ module ]]: out has shape ", out.sizes(), ", input ", input.sizes());
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), "[[ module ]]: out is ", out.scalar_type(), ", input ",
              input.scalar_type());
  TORCH_CHECK(out.device() == input.device(), "[[ module ]]: out is on ", out.device(), ", input on ", input.device());
  TORCH_CHECK(out.is_contiguous(), "[[ module ]]: out must be contiguous");
  TORCH_CHECK(variant >= -1 && variant < kernel::kVariants, "[[ module ]]: there is no variant ", variant);
  const at::Tensor from = input.contiguous();
  at::assert_no_partial_overlap(out, from);
  const std::int64_t columns = from.size(-1);
  TORCH_CHECK(variant < 0 || columns <= kernel::kColumns[variant], "[[ module ]]: variant ", variant,
              " takes fewer than ", columns, " columns");
  if (from.numel() == 0) {
    return;
  }
  const kernel::Type type = type_of(from);
  const std::int64_t rows = from.numel() / columns;
  const int chosen = static_cast<int>(variant);
  call(from, [&](void* stream) {
    return kernel::run(type, out.data_ptr(), from.const_data_ptr(), rows, columns, chosen, stream);
  });
}

at::Tensor [[ module ]]_op(const at::Tensor& input, std::int64_t variant) {
  at::Tensor out = at::empty_like(input, {}, at::MemoryFormat::Contiguous);
  [[ module ]]_out_op(out, input, variant);
  return out;
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  // Its backward is in the Python package.
  ops.def("[[ module ]](Tensor input, int variant) -> Tensor");
[% include "projects/parts/implementations.cpp" %]
  ops.def("[[ module ]]_out(Tensor! out, Tensor input, int variant) -> ()");
  ops.impl("[[ module ]]_out", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
[% set suffix = "_out" %]
[% include "projects/parts/implementations.cpp" %]
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
