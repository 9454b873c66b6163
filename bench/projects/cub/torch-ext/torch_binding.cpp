#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <limits>

#include "csrc/device.h"
#include "registration.h"

namespace {

using Algorithm = decltype(&device_sum);

void run(Algorithm algorithm, const at::Tensor& in, const at::Tensor& out) {
  TORCH_CHECK(in.is_cuda() && in.is_contiguous(), "`in` is not contiguous on a GPU");
  TORCH_CHECK(in.scalar_type() == at::kFloat || in.scalar_type() == at::kLong, "`in` is neither float32 nor int64");
  TORCH_CHECK(in.numel() <= std::numeric_limits<int>::max(), "`in` has too many elements");
  const int kind = in.scalar_type() == at::kFloat ? 0 : 1;
  const int count = static_cast<int>(in.numel());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  std::size_t bytes = 0;
  C10_CUDA_CHECK(algorithm(kind, nullptr, bytes, in.const_data_ptr(), out.data_ptr(), count, stream));
  const at::Tensor scratch = at::empty({static_cast<int64_t>(bytes)}, in.options().dtype(at::kByte));
  C10_CUDA_CHECK(algorithm(kind, scratch.data_ptr(), bytes, in.const_data_ptr(), out.data_ptr(), count, stream));
}

at::Tensor sum(const at::Tensor& in) {
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty({}, in.options());
  run(&device_sum, in, out);
  return out;
}

at::Tensor sort(const at::Tensor& in) {
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty_like(in);
  run(&device_sort, in, out);
  return out;
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("sum(Tensor x) -> Tensor");
  ops.def("sort(Tensor x) -> Tensor");
  ops.impl("sum", at::kCUDA, &sum);
  ops.impl("sort", at::kCUDA, &sort);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
