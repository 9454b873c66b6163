#include <torch/all.h>
#include <ATen/cuda/Atomic.cuh>

template <typename T>
__global__ void histogram(const int64_t* index, T* out) {
  gpuAtomicAdd(&out[index[threadIdx.x]], T(1));
}

void atomics(const at::Tensor& index, at::Tensor& out) {
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(out.scalar_type(), "histogram", [&] {
    histogram<scalar_t><<<1, 32>>>(index.const_data_ptr<int64_t>(), out.data_ptr<scalar_t>());
  });
}
