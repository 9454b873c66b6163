#include <torch/all.h>

using namespace torch;

static __global__ void add_one(float* out) { out[threadIdx.x] += 1; }

Tensor using_namespace(Tensor in) {
  Tensor out = in.clone().add(in);
  TORCH_CHECK(out.dtype() == kFloat32 && out.device().is_cuda());
  add_one<<<1, 32>>>(out.data_ptr<float>());
  return out;
}
