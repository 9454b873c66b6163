#include <torch/all.h>

template <int Threads>
__global__ void __launch_bounds__(Threads, 2) bounded(const float4* __restrict__ in, float4* __restrict__ out) {
  __shared__ float4 tile[Threads];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[Threads - 1 - threadIdx.x];
}

void launch_bounds(const at::Tensor& in, at::Tensor& out) {
  for (const int threads : {64, 128}) {
    auto* kernel = threads == 64 ? bounded<64> : bounded<128>;
    kernel<<<1, threads>>>(reinterpret_cast<const float4*>(in.const_data_ptr()), reinterpret_cast<float4*>(out.data_ptr()));
  }
}
