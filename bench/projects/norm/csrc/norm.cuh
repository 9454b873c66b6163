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

// One warp for each row; a row stays in registers. With a residual, the sum is what is normalised, and is kept.
template <typename In, typename Scale, typename Out, int kWidth, bool kCentered, bool kResidual>
__global__ void __launch_bounds__(128) norm_kernel(const In* __restrict__ in, In* __restrict__ residual,
                                                   const Scale* __restrict__ scale, Out* __restrict__ out, int rows,
                                                   float epsilon) {
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
    const size_t at = static_cast<size_t>(row) * kWidth + i * 32 + lane;
    values[i] = to_float(in[at]);
    if constexpr (kResidual) {
      values[i] += to_float(residual[at]);
      residual[at] = from_float<In>(values[i]);
    }
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
    out[static_cast<size_t>(row) * kWidth + column] = from_float<Out>((values[i] - mean) * factor * to_float(scale[column]));
  }
}

// The gradient of the input, from that of the output.
template <typename In, typename Scale, typename Out, int kWidth, bool kCentered>
__global__ void __launch_bounds__(128) gradient_kernel(const In* __restrict__ in, const Out* __restrict__ gradient,
                                                       const Scale* __restrict__ scale, In* __restrict__ out,
                                                       int rows, float epsilon) {
  constexpr int kEach = kWidth / 32;
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= rows) {
    return;
  }
  const size_t first = static_cast<size_t>(row) * kWidth + lane;
  float values[kEach];
  float scaled[kEach];
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    values[i] = to_float(in[first + i * 32]);
    scaled[i] = to_float(gradient[first + i * 32]) * to_float(scale[i * 32 + lane]);
    total += values[i];
  }
  const float mean = kCentered ? warp_sum(total) / kWidth : 0.0f;
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    values[i] -= mean;
    squares += values[i] * values[i];
  }
  const float factor = rsqrtf(warp_sum(squares) / kWidth + epsilon);
  float along = 0.0f;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    values[i] *= factor;
    along += values[i] * scaled[i];
    sum += scaled[i];
  }
  along = warp_sum(along) / kWidth;
  sum = kCentered ? warp_sum(sum) / kWidth : 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    out[first + i * 32] = from_float<In>((scaled[i] - sum - values[i] * along) * factor);
  }
}

template <typename In, typename Scale, typename Out, int kWidth, bool kCentered>
cudaError_t launch(const Rows& of, cudaStream_t stream) {
  const int blocks = (of.rows + 3) / 4;
  const In* in = static_cast<const In*>(of.in);
  const Scale* scale = static_cast<const Scale*>(of.scale);
  if (of.gradient != nullptr) {
    gradient_kernel<In, Scale, Out, kWidth, kCentered><<<blocks, 128, 0, stream>>>(
        in, static_cast<const Out*>(of.gradient), scale, static_cast<In*>(of.out), of.rows, of.epsilon);
  } else if (of.residual != nullptr) {
    norm_kernel<In, Scale, Out, kWidth, kCentered, true><<<blocks, 128, 0, stream>>>(
        in, static_cast<In*>(of.residual), scale, static_cast<Out*>(of.out), of.rows, of.epsilon);
  } else {
    norm_kernel<In, Scale, Out, kWidth, kCentered, false><<<blocks, 128, 0, stream>>>(
        in, nullptr, scale, static_cast<Out*>(of.out), of.rows, of.epsilon);
  }
  return cudaGetLastError();
}

template <int kWidth, bool kCentered>
cudaError_t dispatch(int kind, const Rows& of, cudaStream_t stream) {
  switch (kind) {
    case 0: return launch<float, float, float, kWidth, kCentered>(of, stream);
    case 1: return launch<__half, __half, __half, kWidth, kCentered>(of, stream);
    case 2: return launch<__half, float, __half, kWidth, kCentered>(of, stream);
    case 3: return launch<__half, float, float, kWidth, kCentered>(of, stream);
    case 4: return launch<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, kWidth, kCentered>(of, stream);
    case 5: return launch<__nv_bfloat16, float, __nv_bfloat16, kWidth, kCentered>(of, stream);
    case 6: return launch<__nv_bfloat16, float, float, kWidth, kCentered>(of, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

#define DEFINE_NORM(width) \
  cudaError_t norm_##width(int kind, bool centered, const Rows& of, cudaStream_t stream) { \
    return centered ? dispatch<width, true>(kind, of, stream) : dispatch<width, false>(kind, of, stream); \
  }
