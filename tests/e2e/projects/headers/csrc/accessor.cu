#include <torch/all.h>

static __global__ void rows(at::PackedTensorAccessor32<float, 2, at::RestrictPtrTraits> in, float* out) {
  out[threadIdx.x] = in[threadIdx.x][0] * in.size(1);
}

void accessor(const at::Tensor& in, at::Tensor& out) {
  rows<<<1, 32>>>(in.packed_accessor32<float, 2, at::RestrictPtrTraits>(), out.data_ptr<float>());
}
