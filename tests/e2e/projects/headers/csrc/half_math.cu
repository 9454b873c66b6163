#include <torch/all.h>

static __global__ void scale(const at::Half* in, at::Half* out, float by) {
  out[threadIdx.x] = static_cast<at::Half>(static_cast<float>(in[threadIdx.x]) * by) + in[0] / at::Half(2.0f);
}

void half_math(const at::Tensor& in, at::Tensor& out, double by) {
  scale<<<1, 32>>>(in.const_data_ptr<at::Half>(), out.data_ptr<at::Half>(), static_cast<float>(by));
}
