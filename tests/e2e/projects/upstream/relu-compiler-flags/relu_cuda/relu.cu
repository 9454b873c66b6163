#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#ifndef WHO_SINGS
#error "cuda-flags or hip-flags do not arrive"
#endif

__global__ void relu_kernel(float* out, const float* input, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    out[i] = input[i] > 0.0f ? input[i] : 0.0f;
  }
}

void relu(at::Tensor& out, const at::Tensor& input) {
  TORCH_CHECK(input.scalar_type() == c10::kFloat && out.scalar_type() == c10::kFloat, "relu: float32 only");
  TORCH_CHECK(input.is_contiguous() && out.is_contiguous() && input.sizes() == out.sizes(), "relu: other layouts");
  const int64_t count = input.numel();
  if (count == 0) {
    return;
  }
  const c10::cuda::CUDAGuard guard(input.device());
  const int64_t blocks = (count + 255) / 256;
  relu_kernel<<<blocks < 4096 ? blocks : 4096, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      out.mutable_data_ptr<float>(), input.const_data_ptr<float>(), count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
