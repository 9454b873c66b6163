#include <torch/all.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <curand_kernel.h>
#include <mutex>

static __global__ void noise(at::PhiloxCudaState state, float* out) {
  const auto [seed, offset] = at::cuda::philox::unpack(state);
  curandStatePhilox4_32_10_t random;
  curand_init(seed, threadIdx.x, offset, &random);
  out[threadIdx.x] = curand_uniform4(&random).x;
}

void philox(at::Tensor& out) {
  auto* generator = at::get_generator_or_default<at::CUDAGeneratorImpl>(
      std::nullopt, at::cuda::detail::getDefaultCUDAGenerator());
  at::PhiloxCudaState state;
  {
    const std::lock_guard<std::mutex> lock(generator->mutex_);
    state = generator->philox_cuda_state(4);
  }
  noise<<<1, 32>>>(state, out.data_ptr<float>());
}
