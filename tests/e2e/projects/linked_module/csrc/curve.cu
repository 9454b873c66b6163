#include <c10/cuda/CUDAException.h>

#include "curve.cuh"
#include "kernels.h"

__constant__ float table[8];
__device__ int calls;

// Each file has a variable of this name.
static __device__ int own;

__device__ float curve(float x, int i) {
  atomicAdd(&calls, 1);
  own = i;
  return x * table[i % 8];
}

void set_table(const at::Tensor& values) {
  C10_CUDA_CHECK(cudaMemcpyToSymbol(table, values.const_data_ptr<float>(), sizeof(table)));
}

int calls_so_far() {
  int found = 0;
  C10_CUDA_CHECK(cudaMemcpyFromSymbol(&found, calls, sizeof(int)));
  return found;
}
