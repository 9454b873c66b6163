#include <torch/all.h>

template <typename F>
__global__ void apply(const float* in, float* out, F function) {
  out[threadIdx.x] = function(in[threadIdx.x]);
}

void lambda(const at::Tensor& in, at::Tensor& out, double slope) {
  const float by = static_cast<float>(slope);
  apply<<<1, 32>>>(in.const_data_ptr<float>(), out.data_ptr<float>(),
                   [by] __device__(float x) { return x > 0 ? x : by * x; });
}
