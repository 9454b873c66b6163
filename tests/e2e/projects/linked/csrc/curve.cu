#include "curve.cuh"
#include "kernels.h"

__constant__ float table[8];
__device__ int calls;

// Each file has a variable of this name.
static __device__ int own;

__device__ float curve(float x, int i) {
  atomicAdd(&calls, 1);
  atomicAdd(&own, 1);
  return x * table[i % 8];
}

cudaError_t set_table(const float* values) { return cudaMemcpyToSymbol(table, values, sizeof(table)); }
cudaError_t read_calls(int* found) { return cudaMemcpyFromSymbol(found, calls, sizeof(int)); }
