#include <torch/all.h>

using namespace at;

static __global__ void fill_kernel(float* out, float value) { out[threadIdx.x] = value; }

std::tuple<Tensor, Tensor> using_namespace_at(const Tensor& in) {
  Tensor out = empty(in.sizes(), in.options().dtype(kFloat));
  fill_kernel<<<1, 32>>>(out.data_ptr<float>(), 2.0f);
  return std::make_tuple(sum(out, {0}), max(out));
}
