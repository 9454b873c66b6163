#include <torch/all.h>
#include <ATen/Dispatch_v2.h>

template <typename T>
__global__ void sign(const T* in, int* out) {
  out[threadIdx.x] = static_cast<float>(in[threadIdx.x]) > 0.0f ? 1 : -1;
}

void dispatch_v2(const at::Tensor& in, at::Tensor& out) {
  AT_DISPATCH_V2(in.scalar_type(), "sign", AT_WRAP([&] {
    sign<scalar_t><<<1, 32>>>(in.const_data_ptr<scalar_t>(), out.data_ptr<int>());
  }), AT_EXPAND(AT_INTEGRAL_TYPES), AT_EXPAND(AT_FLOATING_TYPES), at::kHalf);
}
