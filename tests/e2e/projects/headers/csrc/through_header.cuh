#pragma once

template <typename T>
__global__ void copy_kernel(const T* in, T* out) {
  out[threadIdx.x] = in[threadIdx.x];
}

template <typename T>
void launch(const at::Tensor& in, at::Tensor& out) {
  copy_kernel<T><<<1, 32>>>(in.const_data_ptr<T>(), out.data_ptr<T>());
}
