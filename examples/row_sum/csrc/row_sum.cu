#include "row_sum.h"

namespace row_sum {
namespace {

constexpr int kThreads = 256;

// The value of another thread of the warp. CUDA asks which threads take part; HIP's own function without a mask takes a
// warp of either size, and the mask of its function with one would have 64 bits.
__device__ float shuffle_xor(float value, int distance) {
#ifdef USE_ROCM
  return __shfl_xor(value, distance);
#else
  return __shfl_xor_sync(0xffffffffu, value, distance);
#endif
}

// A warp is 32 threads on NVIDIA's GPUs and AMD's RDNA, 64 on AMD's CDNA. `warpSize` says so on the device, where each
// architecture is compiled for itself and the loop is unrolled; a 32 in the source would lose half of a warp of 64.
__device__ float warp_sum(float value) {
  for (int distance = warpSize / 2; distance > 0; distance /= 2) {
    value += shuffle_xor(value, distance);
  }
  return value;
}

// A warp for each row.
__global__ void row_sum_kernel(float* __restrict__ out, const float* __restrict__ in, std::int64_t rows,
                               std::int64_t columns) {
  const std::int64_t thread = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t row = thread / warpSize;
  if (row >= rows) {
    return;
  }
  const int lane = threadIdx.x % warpSize;
  float sum = 0.0f;
  for (std::int64_t column = lane; column < columns; column += warpSize) {
    sum += in[row * columns + column];
  }
  sum = warp_sum(sum);
  if (lane == 0) {
    out[row] = sum;
  }
}

}  // namespace

cudaError_t launch(float* out, const float* in, std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  if (rows == 0) {
    return cudaSuccess;
  }
  // On the host the size of a warp is known of a device only: one program may run on GPUs of both kinds.
  int device = 0;
  int warp = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, device);
  }
  if (status != cudaSuccess) {
    return status;
  }
  const std::int64_t rows_of_block = kThreads / warp;
  const std::int64_t blocks = (rows + rows_of_block - 1) / rows_of_block;
  row_sum_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(out, in, rows, columns);
  return cudaGetLastError();
}

}  // namespace row_sum
