#pragma once
// The files of this family take tensors and dispatch on their types, as most extensions do.
#include <ATen/ATen.h>
#include <ATen/AccumulateType.h>
#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "norm.h"

namespace {

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

// One warp for each row; what a lane has of it stays in registers.
template <typename T, int kWidth>
__global__ void __launch_bounds__(128)
    norm_kernel(const T* __restrict__ in, const T* __restrict__ scale, T* __restrict__ out, int rows, double epsilon) {
  using Sum = at::acc_type<T, true>;
  const int row = static_cast<int>(blockIdx.x * 4 + threadIdx.x / 32);
  if (row >= rows) {
    return;
  }
  const int lane = static_cast<int>(threadIdx.x % 32);
  const size_t first = static_cast<size_t>(row) * kWidth + lane;
  Sum values[kWidth / 32];
  Sum squares = 0;
#pragma unroll
  for (int i = 0; i < kWidth / 32; ++i) {
    values[i] = static_cast<Sum>(in[first + i * 32]);
    squares += values[i] * values[i];
  }
  const Sum factor = ::rsqrt(warp_sum(squares) / kWidth + static_cast<Sum>(epsilon));
#pragma unroll
  for (int i = 0; i < kWidth / 32; ++i) {
    out[first + i * 32] = static_cast<T>(values[i] * factor * static_cast<Sum>(scale[lane + i * 32]));
  }
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(128)
    gradient_kernel(const T* __restrict__ of, const T* __restrict__ in, const T* __restrict__ scale,
                    T* __restrict__ out, int rows, double epsilon) {
  using Sum = at::acc_type<T, true>;
  const int row = static_cast<int>(blockIdx.x * 4 + threadIdx.x / 32);
  if (row >= rows) {
    return;
  }
  const int lane = static_cast<int>(threadIdx.x % 32);
  const size_t first = static_cast<size_t>(row) * kWidth + lane;
  Sum values[kWidth / 32];
  Sum scaled[kWidth / 32];
  Sum squares = 0;
  Sum along = 0;
#pragma unroll
  for (int i = 0; i < kWidth / 32; ++i) {
    values[i] = static_cast<Sum>(in[first + i * 32]);
    scaled[i] = static_cast<Sum>(of[first + i * 32]) * static_cast<Sum>(scale[lane + i * 32]);
    squares += values[i] * values[i];
    along += values[i] * scaled[i];
  }
  const Sum factor = ::rsqrt(warp_sum(squares) / kWidth + static_cast<Sum>(epsilon));
  along = warp_sum(along) * factor * factor / kWidth;
#pragma unroll
  for (int i = 0; i < kWidth / 32; ++i) {
    out[first + i * 32] = static_cast<T>((scaled[i] - values[i] * along) * factor);
  }
}

template <int kWidth>
at::Tensor norm(const at::Tensor& in, const at::Tensor& scale, double epsilon) {
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty_like(in);
  const int rows = static_cast<int>(in.size(0));
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, in.scalar_type(), "norm", [&] {
    norm_kernel<scalar_t, kWidth><<<(rows + 3) / 4, 128, 0, stream>>>(
        in.const_data_ptr<scalar_t>(), scale.const_data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), rows, epsilon);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

template <int kWidth>
at::Tensor gradient(const at::Tensor& of, const at::Tensor& in, const at::Tensor& scale, double epsilon) {
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty_like(in);
  const int rows = static_cast<int>(in.size(0));
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, in.scalar_type(), "gradient", [&] {
    gradient_kernel<scalar_t, kWidth><<<(rows + 3) / 4, 128, 0, stream>>>(
        of.const_data_ptr<scalar_t>(), in.const_data_ptr<scalar_t>(), scale.const_data_ptr<scalar_t>(),
        out.data_ptr<scalar_t>(), rows, epsilon);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

}  // namespace

#define DEFINE_NORM(width)                                                                                         \
  at::Tensor norm_##width(const at::Tensor& in, const at::Tensor& scale, double epsilon) {                         \
    return norm<width>(in, scale, epsilon);                                                                        \
  }                                                                                                                \
  at::Tensor gradient_##width(const at::Tensor& of, const at::Tensor& in, const at::Tensor& scale, double epsilon) { \
    return gradient<width>(of, in, scale, epsilon);                                                                \
  }
