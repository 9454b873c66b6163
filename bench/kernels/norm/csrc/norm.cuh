#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "norm.h"

namespace {

template <typename T>
__device__ __forceinline__ float to_float(T value) {
  return static_cast<float>(value);
}

template <typename T>
__device__ __forceinline__ T from_float(float value) {
  return static_cast<T>(value);
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

// One warp for each row; a row stays in registers.
template <typename In, typename Out, int kWidth, bool kCentered>
__global__ void __launch_bounds__(128) norm_kernel(const In* __restrict__ in, const float* __restrict__ scale,
                                                   Out* __restrict__ out, int rows, float epsilon) {
  constexpr int kEach = kWidth / 32;
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= rows) {
    return;
  }
  float values[kEach];
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    values[i] = to_float(in[static_cast<size_t>(row) * kWidth + i * 32 + lane]);
    total += values[i];
  }
  const float mean = kCentered ? warp_sum(total) / kWidth : 0.0f;
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float distance = values[i] - mean;
    squares += distance * distance;
  }
  const float factor = rsqrtf(warp_sum(squares) / kWidth + epsilon);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int column = i * 32 + lane;
    out[static_cast<size_t>(row) * kWidth + column] = from_float<Out>((values[i] - mean) * factor * scale[column]);
  }
}

template <typename In, typename Out, int kWidth, bool kCentered>
cudaError_t launch(const void* in, const void* scale, void* out, int rows, float epsilon, cudaStream_t stream) {
  norm_kernel<In, Out, kWidth, kCentered><<<(rows + 3) / 4, 128, 0, stream>>>(
      static_cast<const In*>(in), static_cast<const float*>(scale), static_cast<Out*>(out), rows, epsilon);
  return cudaGetLastError();
}

template <int kWidth>
cudaError_t dispatch(int kind, const void* in, const void* scale, void* out, int rows, float epsilon,
                     cudaStream_t stream) {
  switch (kind) {
    case 0: return launch<float, float, kWidth, true>(in, scale, out, rows, epsilon, stream);
    case 1: return launch<__half, __half, kWidth, true>(in, scale, out, rows, epsilon, stream);
    case 2: return launch<__nv_bfloat16, __nv_bfloat16, kWidth, true>(in, scale, out, rows, epsilon, stream);
    case 3: return launch<__half, float, kWidth, true>(in, scale, out, rows, epsilon, stream);
    case 4: return launch<__nv_bfloat16, float, kWidth, true>(in, scale, out, rows, epsilon, stream);
    case 5: return launch<float, float, kWidth, false>(in, scale, out, rows, epsilon, stream);
    case 6: return launch<__half, __half, kWidth, false>(in, scale, out, rows, epsilon, stream);
    case 7: return launch<__nv_bfloat16, __nv_bfloat16, kWidth, false>(in, scale, out, rows, epsilon, stream);
    case 8: return launch<__half, float, kWidth, false>(in, scale, out, rows, epsilon, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

#define DEFINE_NORM(width) \
  cudaError_t norm_##width(int kind, const void* in, const void* scale, void* out, int rows, float epsilon, \
                           cudaStream_t stream) { \
    return dispatch<width>(kind, in, scale, out, rows, epsilon, stream); \
  }
