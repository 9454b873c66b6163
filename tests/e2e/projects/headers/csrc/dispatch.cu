#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

template <typename T>
__global__ void twice(const T* in, T* out, int64_t n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i] + in[i];
}

at::Tensor dispatch(const at::Tensor& in) {
  at::Tensor out = at::empty_like(in);
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, in.scalar_type(), "twice", [&] {
    twice<<<1, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        in.const_data_ptr<scalar_t>(), out.mutable_data_ptr<scalar_t>(), in.numel());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
