// Registers the op with torch, and hands its tensors to the kernels as pointers.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
[% include "projects/parts/device_headers.cpp" %]

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

kernel::Type type_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return kernel::Type::float16;
    case at::kBFloat16:
      return kernel::Type::bfloat16;
    case at::kFloat:
      return kernel::Type::float32;
    default:
      TORCH_CHECK(false, "[[ module ]]: no kernel for an output of ", type);
  }
}

// Both have a scale for each block, or each has one for all or one for each row of a and column of b.
kernel::Scales scales_of(const at::Tensor& a_scales, const at::Tensor& b_scales, const kernel::Sizes& sizes) {
  const auto blocks_of = [](std::int64_t size) { return (size + kernel::kBlock - 1) / kernel::kBlock; };
  const std::int64_t deep = blocks_of(sizes.depth);
  kernel::Scales scales = {a_scales.const_data_ptr<float>(), b_scales.const_data_ptr<float>(), 0, 0, 0, 0, false};
  const bool of_rows = a_scales.sizes() == at::IntArrayRef({sizes.rows, 1});
  const bool of_columns = b_scales.sizes() == at::IntArrayRef({1, sizes.columns});
  if ((of_rows || a_scales.numel() == 1) && (of_columns || b_scales.numel() == 1)) {
    scales.a_row = of_rows ? a_scales.stride(0) : 0;
    scales.b_column = of_columns ? b_scales.stride(1) : 0;
    return scales;
  }
  TORCH_CHECK(a_scales.sizes() == at::IntArrayRef({sizes.rows, deep}) &&
                  b_scales.sizes() == at::IntArrayRef({deep, blocks_of(sizes.columns)}),
              "[[ module ]]: a_scales has shape ", a_scales.sizes(), ", b_scales ", b_scales.sizes(),
              ": give one scale, or [", sizes.rows, ", 1] and [1, ", sizes.columns, "], or for blocks of ",
              kernel::kBlock, " [", sizes.rows, ", ", deep, "] and [", deep, ", ", blocks_of(sizes.columns), "]");
  scales.blocks = true;
  scales.a_row = a_scales.stride(0);
  scales.a_step = a_scales.stride(1);
  scales.b_step = b_scales.stride(0);
  scales.b_column = b_scales.stride(1);
  return scales;
}

[% include "projects/parts/call.cpp" %]

at::Tensor [[ module ]]_op(const at::Tensor& a, const at::Tensor& b, const at::Tensor& a_scales,
                         const at::Tensor& b_scales, at::ScalarType dtype, bool fast) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "[[ module ]]: a has shape ", a.sizes(), ", b ",
              b.sizes());
  TORCH_CHECK(a.scalar_type() == at::kFloat8_e4m3fn && b.scalar_type() == at::kFloat8_e4m3fn,
              "[[ module ]]: no kernel for ", a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a_scales.scalar_type() == at::kFloat && b_scales.scalar_type() == at::kFloat,
              "[[ module ]]: a_scales is ", a_scales.scalar_type(), ", b_scales ", b_scales.scalar_type(),
              ", not float32");
  TORCH_CHECK(a.device() == b.device() && a.device() == a_scales.device() && a.device() == b_scales.device(),
              "[[ module ]]: tensors are on several devices");
  const kernel::Type type = type_of(dtype);
  const kernel::Sizes sizes = {a.size(0), b.size(1), a.size(1)};
  const kernel::Scales scales = scales_of(a_scales, b_scales, sizes);
  TORCH_CHECK(!(fast && scales.blocks), "[[ module ]]: a product of blocks cannot be fast");
  at::Tensor out = at::empty({sizes.rows, sizes.columns}, a.options().dtype(dtype));
  const at::Tensor left = a.contiguous();
  // A transposed weight is taken as it is; anything else is copied to lie column by column.
  const at::Tensor right = b.t().contiguous();
  call(a, [&](void* stream) {
    void* memory = nullptr;
[% if cuda %]
[% if cpu %]
#ifndef CPU_KERNEL
[% endif %]
    // Later work of the stream can have it again.
    at::Tensor scratch;
    if (const std::int64_t bytes = kernel::scratch_bytes(left.const_data_ptr(), right.const_data_ptr(), sizes)) {
      scratch = at::empty({bytes}, a.options().dtype(at::kByte));
      memory = scratch.data_ptr();
    }
[% if cpu %]
#endif
[% endif %]
[% endif %]
    return kernel::run(type, out.data_ptr(), left.const_data_ptr(), right.const_data_ptr(), sizes, scales, fast, memory,
                       stream);
  });
  return out;
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def(
      "[[ module ]](Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, ScalarType dtype, bool fast) -> Tensor");
  ops.impl("[[ module ]]", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
[% include "projects/parts/implementations.cpp" %]
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
