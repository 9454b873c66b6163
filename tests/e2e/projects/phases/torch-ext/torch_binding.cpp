#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "csrc/kernels.h"
#include "registration.h"

namespace {

void check(const at::Tensor& tensor, at::ScalarType type) {
  TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous(), "the tensor is not contiguous on a GPU");
  TORCH_CHECK(tensor.scalar_type() == type, "the tensor has another type");
}

template <typename Run>
void with_scratch(const at::Tensor& like, Run run) {
  size_t bytes = 0;
  C10_CUDA_CHECK(run(nullptr, bytes));
  const at::Tensor scratch = at::empty({static_cast<int64_t>(bytes)}, like.options().dtype(at::kByte));
  C10_CUDA_CHECK(run(scratch.data_ptr(), bytes));
}

at::Tensor sum_of(const at::Tensor& in) {
  check(in, at::kFloat);
  const c10::cuda::CUDAGuard guard(in.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  at::Tensor out = at::empty({1}, in.options());
  with_scratch(in, [&](void* scratch, size_t& bytes) {
    return sum(scratch, bytes, in.const_data_ptr<float>(), out.data_ptr<float>(), static_cast<int>(in.numel()), stream);
  });
  return out;
}

at::Tensor sorted(const at::Tensor& in) {
  check(in, at::kInt);
  const c10::cuda::CUDAGuard guard(in.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  at::Tensor out = at::empty_like(in);
  with_scratch(in, [&](void* scratch, size_t& bytes) {
    return sort(scratch, bytes, in.const_data_ptr<int>(), out.data_ptr<int>(), static_cast<int>(in.numel()), stream);
  });
  return out;
}

at::Tensor affine_of(const at::Tensor& in) {
  check(in, at::kFloat);
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty_like(in);
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  C10_CUDA_CHECK(affine(in.const_data_ptr<float>(), out.data_ptr<float>(), static_cast<int>(in.numel()), stream));
  return out;
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("sum(Tensor x) -> Tensor");
  ops.def("sort(Tensor x) -> Tensor");
  ops.def("affine(Tensor x) -> Tensor");
  ops.impl("sum", at::kCUDA, &sum_of);
  ops.impl("sort", at::kCUDA, &sorted);
  ops.impl("affine", at::kCUDA, &affine_of);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
