#include <torch/all.h>

static __global__ void twice(float* out) { out[threadIdx.x] *= 2; }

torch::Tensor from_memory(void* data, int64_t size) {
  twice<<<1, 32>>>(static_cast<float*>(data));
  return torch::from_blob(data, {size}, [](void* memory) { cudaFree(memory); }, torch::dtype(torch::kFloat32));
}
