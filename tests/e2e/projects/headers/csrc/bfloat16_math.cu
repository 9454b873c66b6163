#include <torch/all.h>

#include <cuda_bf16.h>

static __global__ void fused(const __nv_bfloat162* in, __nv_bfloat162* out) {
  out[threadIdx.x] = __hfma2(in[threadIdx.x], in[threadIdx.x], in[0]);
}

static __global__ void plain(const c10::BFloat16* in, c10::BFloat16* out) {
  out[threadIdx.x] = in[threadIdx.x] * in[threadIdx.x] - in[0];
}

void bfloat16_math(const torch::Tensor& in, torch::Tensor& out) {
  fused<<<1, 32>>>(reinterpret_cast<const __nv_bfloat162*>(in.const_data_ptr()),
                   reinterpret_cast<__nv_bfloat162*>(out.data_ptr()));
  plain<<<1, 32>>>(in.const_data_ptr<at::BFloat16>(), out.data_ptr<at::BFloat16>());
}
