#include <torch/all.h>

static __global__ void widen(const c10::Float8_e4m3fn* in, float* out) {
  out[threadIdx.x] = static_cast<float>(in[threadIdx.x]);
}

void float8(const at::Tensor& in, at::Tensor& out) {
  TORCH_CHECK(in.scalar_type() == at::kFloat8_e4m3fn, "not float8: ", in.scalar_type());
  widen<<<1, 32>>>(in.const_data_ptr<c10::Float8_e4m3fn>(), out.data_ptr<float>());
}
