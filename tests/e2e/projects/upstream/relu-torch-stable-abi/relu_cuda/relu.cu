#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/tensor.h>

// The header declares it with USE_CUDA only.
extern "C" AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);

__global__ void relu_kernel(float* out, const float* input, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    out[i] = input[i] > 0.0f ? input[i] : 0.0f;
  }
}

void relu(torch::stable::Tensor& out, const torch::stable::Tensor& input) {
  STD_TORCH_CHECK(input.scalar_type() == torch::headeronly::ScalarType::Float, "relu: float32 only");
  STD_TORCH_CHECK(input.is_contiguous() && out.is_contiguous() && input.numel() == out.numel(), "relu: other layouts");
  const int64_t count = input.numel();
  if (count == 0) {
    return;
  }
  const torch::stable::accelerator::DeviceGuard guard(input.get_device_index());
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(input.get_device_index(), &stream));
  const int64_t blocks = (count + 255) / 256;
  relu_kernel<<<blocks < 4096 ? blocks : 4096, 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<float*>(out.data_ptr()), static_cast<const float*>(input.data_ptr()), count);
}
