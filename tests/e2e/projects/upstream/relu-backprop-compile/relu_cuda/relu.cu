#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "../torch-ext/torch_binding.h"

// Passes `value` on where `input` is above zero: the input itself forwards, the gradient of the output backwards.
__global__ void where_positive(float* out, const float* value, const float* input, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    out[i] = input[i] > 0.0f ? value[i] : 0.0f;
  }
}

static at::Tensor launch(const at::Tensor& value, const at::Tensor& input) {
  TORCH_CHECK(input.scalar_type() == c10::kFloat && value.scalar_type() == c10::kFloat, "relu: float32 only");
  TORCH_CHECK(input.is_contiguous() && value.is_contiguous(), "relu: contiguous tensors only");
  at::Tensor out = at::empty_like(input);
  const int64_t count = input.numel();
  if (count > 0) {
    const c10::cuda::CUDAGuard guard(input.device());
    const int64_t blocks = (count + 255) / 256;
    where_positive<<<blocks < 4096 ? blocks : 4096, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        out.mutable_data_ptr<float>(), value.const_data_ptr<float>(), input.const_data_ptr<float>(), count);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return out;
}

at::Tensor relu_fwd(const at::Tensor& input) { return launch(input, input); }

at::Tensor relu_bwd(const at::Tensor& grad_output, const at::Tensor& input) { return launch(grad_output, input); }
