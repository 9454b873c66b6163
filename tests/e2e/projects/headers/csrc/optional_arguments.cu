#include <torch/all.h>

static __global__ void add(const float* in, const float* bias, float* out) {
  out[threadIdx.x] = in[threadIdx.x] + (bias ? bias[threadIdx.x] : 0.0f);
}

at::Tensor optional_arguments(const at::Tensor& in, const std::optional<at::Tensor>& bias, std::optional<double> eps) {
  at::Tensor out = bias.has_value() ? at::empty_like(*bias) : at::empty_like(in);
  add<<<1, 32>>>(in.const_data_ptr<float>(), bias ? bias->const_data_ptr<float>() : nullptr, out.data_ptr<float>());
  return out.add_(eps.value_or(0.0));
}
