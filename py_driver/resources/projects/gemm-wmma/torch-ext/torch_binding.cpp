// Registers the op with torch, and hands its tensors to the kernels as pointers.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
[% include "projects/parts/device_headers.cpp" %]

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

kernel::Type type_of(const at::Tensor& tensor, bool narrow_sums) {
  TORCH_CHECK(!narrow_sums || tensor.scalar_type() == at::kHalf, "[[ module ]]: sums of float16 are for float16, not ",
              tensor.scalar_type());
  switch (tensor.scalar_type()) {
    case at::kHalf:
      return narrow_sums ? kernel::Type::narrow_float16 : kernel::Type::float16;
    case at::kBFloat16:
      return kernel::Type::bfloat16;
    case at::kChar:
      return kernel::Type::int8;
    default:
      TORCH_CHECK(false, "[[ module ]]: no kernel for ", tensor.scalar_type());
  }
}

[% include "projects/parts/call.cpp" %]

void [[ module ]]_out_op(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool narrow_sums) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "[[ module ]]: a has shape ", a.sizes(), ", b ",
              b.sizes());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "[[ module ]]: a is ", a.scalar_type(), ", b ", b.scalar_type());
  TORCH_CHECK(a.device() == b.device() && a.device() == out.device(), "[[ module ]]: tensors are on several devices");
  const kernel::Type type = type_of(a, narrow_sums);
  const auto wanted = type == kernel::Type::int8 ? at::kInt : a.scalar_type();
  TORCH_CHECK(out.scalar_type() == wanted, "[[ module ]]: out is ", out.scalar_type(), ", not ", wanted);
  TORCH_CHECK(out.dim() == 2 && out.size(0) == a.size(0) && out.size(1) == b.size(1), "[[ module ]]: out has shape ",
              out.sizes());
  TORCH_CHECK(out.is_contiguous(), "[[ module ]]: out must be contiguous");
  const at::Tensor left = a.contiguous();
  // A transposed weight is taken as it is; anything else is copied to lie row by row. A single column is both, and read
  // faster as a line.
  const bool by_columns = b.t().is_contiguous() && (b.size(1) == 1 || !b.is_contiguous());
  const at::Tensor right = by_columns ? b : b.contiguous();
  at::assert_no_overlap(out, left);
  at::assert_no_overlap(out, right);
  const kernel::Sizes sizes = {a.size(0), b.size(1), a.size(1), by_columns};
  call(a, [&](void* stream) {
    const void* const from_left = left.const_data_ptr();
    const void* const from_right = right.const_data_ptr();
    const std::int64_t bytes = kernel::scratch_bytes(type, out.data_ptr(), from_left, from_right, sizes);
    // Later work of the stream can have it again.
    const at::Tensor scratch = bytes > 0 ? at::empty({bytes}, a.options().dtype(at::kByte)) : at::Tensor();
    void* const memory = bytes > 0 ? scratch.data_ptr() : nullptr;
    return kernel::run(type, out.data_ptr(), from_left, from_right, sizes, memory, stream);
  });
}

at::Tensor [[ module ]]_op(const at::Tensor& a, const at::Tensor& b, bool narrow_sums) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2, "[[ module ]]: a has shape ", a.sizes(), ", b ", b.sizes());
  const auto type = a.scalar_type() == at::kChar ? at::kInt : a.scalar_type();
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
  [[ module ]]_out_op(out, a, b, narrow_sums);
  return out;
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  // Its backward is in the Python package.
  ops.def("[[ module ]](Tensor a, Tensor b, bool narrow_sums) -> Tensor");
[% include "projects/parts/implementations.cpp" %]
  ops.def("[[ module ]]_out(Tensor! out, Tensor a, Tensor b, bool narrow_sums) -> ()");
  ops.impl("[[ module ]]_out", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
[% set suffix = "_out" %]
[% include "projects/parts/implementations.cpp" %]
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
