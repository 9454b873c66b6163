#include <ATen/ATen.h>
#include <ATen/native/cuda/MemoryAccess.cuh>

static __global__ void copy(const float* in, float* out) {
  using Four = at::native::memory::aligned_vector<float, 4>;
  reinterpret_cast<Four*>(out)[threadIdx.x] = reinterpret_cast<const Four*>(in)[threadIdx.x];
}

void vectors(const at::Tensor& in, at::Tensor& out) {
  copy<<<1, 32>>>(in.const_data_ptr<float>(), out.data_ptr<float>());
}
