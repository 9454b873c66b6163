#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/device_guard.h>

#include "../check.hh"

__global__ void scale_kernel(float* out, const float* in, float factor, int64_t size) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < size) out[i] = in[i] * factor;
}

void scale_cuda(tvm::ffi::TensorView out, tvm::ffi::TensorView in, double factor) {
  check(out, kDLCUDA);
  check(in, kDLCUDA);
  const DLDevice device = in.device();
  tvm::ffi::CUDADeviceGuard guard(device.device_id);
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  const int64_t size = in.numel();
  if (size == 0) return;
  scale_kernel<<<(size + 255) / 256, 256, 0, stream>>>(
      static_cast<float*>(out.data_ptr()), static_cast<const float*>(in.data_ptr()), static_cast<float>(factor), size);
}
