#include <torch/all.h>

namespace mine {
template <typename T>
__host__ __device__ T max(T a, T b) { return a > b ? a : b; }
template <typename T>
__host__ __device__ T abs(T a) { return a < 0 ? -a : a; }
}  // namespace mine

static __global__ void largest(const float* in, float* out) {
  using mine::abs;
  using mine::max;
  *out = max(abs(in[0]), max<float>(abs(in[1]), in[2]));
}

void own_names(const torch::Tensor& in, torch::Tensor& out) {
  largest<<<1, 1>>>(in.data_ptr<float>(), out.data_ptr<float>());
  out.mul_(mine::max(1, 2));
}
