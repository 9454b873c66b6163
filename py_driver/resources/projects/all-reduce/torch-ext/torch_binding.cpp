// Registers the op with torch, and hands its tensors to the kernels as pointers.
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <torch/library.h>
[% include "projects/parts/device_headers.cpp" %]

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

[% include "projects/parts/float_types.cpp" %]

[% include "projects/parts/call.cpp" %]

void [[ module ]]_op(at::Tensor& out, const at::Tensor& input, at::IntArrayRef memory, std::int64_t capacity,
                     std::int64_t rank, bool two_shot) {
  const auto ranks = static_cast<std::int64_t>(memory.size());
  TORCH_CHECK(ranks >= 1 && ranks <= kernel::kMaxRanks, "[[ module ]]: ", ranks, " ranks, not 1 to ", kernel::kMaxRanks);
  TORCH_CHECK(rank >= 0 && rank < ranks, "[[ module ]]: rank ", rank, " of ", ranks);
  TORCH_CHECK(capacity > 0 && capacity % 16 == 0, "[[ module ]]: buffers of ", capacity, " bytes, no multiple of 16");
  TORCH_CHECK(out.sizes() == input.sizes(), "[[ module ]]: out has shape ", out.sizes(), ", input ", input.sizes());
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), "[[ module ]]: out is ", out.scalar_type(), ", input ",
              input.scalar_type());
  TORCH_CHECK(out.device() == input.device(), "[[ module ]]: out is on ", out.device(), ", input on ", input.device());
  TORCH_CHECK(out.is_contiguous() && input.is_contiguous(), "[[ module ]]: both tensors must be contiguous");
  const auto bytes = static_cast<std::int64_t>(input.nbytes());
  TORCH_CHECK(bytes <= capacity, "[[ module ]]: ", bytes, " bytes do not fit into buffers of ", capacity);
  const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
  TORCH_CHECK(aligned(out.const_data_ptr()) && aligned(input.const_data_ptr()),
              "[[ module ]]: both tensors must be aligned to 16 bytes");
  const kernel::Type type = type_of(input);
  kernel::Peers peers = {};
  for (std::int64_t peer = 0; peer < ranks; ++peer) {
    peers.memory[peer] = reinterpret_cast<void*>(memory[peer]);
  }
  peers.capacity = capacity;
  peers.rank = static_cast<int>(rank);
  peers.ranks = static_cast<int>(ranks);
  call(input, [&](void* stream) {
    return kernel::run(type, peers, out.data_ptr(), input.const_data_ptr(), input.numel(), two_shot, stream);
  });
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("[[ module ]](Tensor! out, Tensor input, int[] memory, int capacity, int rank, bool two_shot) -> ()");
  ops.impl("[[ module ]]", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
  ops.impl("[[ module ]]", c10::kCUDA, &[[ module ]]_op);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
