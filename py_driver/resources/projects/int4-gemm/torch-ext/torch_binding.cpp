// Registers the op with torch, and hands its tensors to the kernels as pointers.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
[% if cuda %]
[% if cpu %]
#ifndef CPU_KERNEL
[% endif %]
#include <ATen/ops/mm.h>
[% if cpu %]
#endif
[% endif %]
[% endif %]
#include <torch/library.h>
[% include "projects/parts/device_headers.cpp" %]

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

kernel::Type type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kHalf:
      return kernel::Type::float16;
    case at::kBFloat16:
      return kernel::Type::bfloat16;
    default:
      TORCH_CHECK(false, "[[ module ]]: no kernel for ", tensor.scalar_type());
  }
}

// The tensor, dense, and where vector loads can read it.
at::Tensor aligned(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return reinterpret_cast<std::uintptr_t>(dense.const_data_ptr()) % 16 == 0 ? dense : dense.clone();
}

[% include "projects/parts/call.cpp" %]

void [[ module ]]_op(at::Tensor& out, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scales) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == 2 * weight.size(1), "[[ module ]]: x has shape ",
              x.sizes(), ", weight ", weight.sizes(), ": two weights are in a byte");
  TORCH_CHECK(weight.scalar_type() == at::kByte, "[[ module ]]: weight is ", weight.scalar_type(), ", not uint8");
  TORCH_CHECK(scales.dim() == 2 && scales.size(0) == weight.size(0) && scales.size(1) > 0 &&
                  x.size(1) % (32 * scales.size(1)) == 0 && x.size(1) > 0,
              "[[ module ]]: scales has shape ", scales.sizes(), ", weight ", weight.sizes(),
              ": a group must be a multiple of 32 weights");
  const kernel::Type type = type_of(x);
  TORCH_CHECK(scales.scalar_type() == x.scalar_type() && out.scalar_type() == x.scalar_type(), "[[ module ]]: x is ",
              x.scalar_type(), ", scales ", scales.scalar_type(), ", out ", out.scalar_type());
  TORCH_CHECK(x.device() == weight.device() && x.device() == scales.device() && x.device() == out.device(),
              "[[ module ]]: tensors are on several devices");
  TORCH_CHECK(out.dim() == 2 && out.size(0) == x.size(0) && out.size(1) == weight.size(0),
              "[[ module ]]: out has shape ", out.sizes());
  TORCH_CHECK(out.is_contiguous(), "[[ module ]]: out must be contiguous");
  TORCH_CHECK(weight.size(0) <= 65535 * 16, "[[ module ]]: weight has ", weight.size(0), " rows");
  if (out.numel() == 0) {
    return;
  }
  const at::Tensor from = aligned(x);
  const at::Tensor packed = aligned(weight);
  const at::Tensor factors = scales.contiguous();
  for (const at::Tensor& read : {from, packed, factors}) {
    at::assert_no_overlap(out, read);
  }
  const kernel::Sizes sizes = {x.size(0), weight.size(0), x.size(1), x.size(1) / scales.size(1)};
[% if cuda %]
[% if cpu %]
#ifndef CPU_KERNEL
[% endif %]
  bool wide_weights = false;
  call(x, [&](void*) {
    wide_weights = kernel::is_faster_wide(sizes);
    return 0;
  });
  if (wide_weights) {
    const at::Tensor wide = x.new_empty({sizes.columns, sizes.depth});
    call(x, [&](void* stream) {
      return kernel::widen(type, wide.data_ptr(), packed.const_data_ptr(), factors.const_data_ptr(), sizes, stream);
    });
    at::mm_out(out, from, wide.t());
    return;
  }
[% if cpu %]
#endif
[% endif %]
[% endif %]
  call(x, [&](void* stream) {
    return kernel::run(type, out.data_ptr(), from.const_data_ptr(), packed.const_data_ptr(), factors.const_data_ptr(),
                       sizes, stream);
  });
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("[[ module ]](Tensor! out, Tensor x, Tensor weight, Tensor scales) -> ()");
  ops.impl("[[ module ]]", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
[% include "projects/parts/implementations.cpp" %]
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
