#include <cuda_runtime_api.h>
#include <omp.h>

#include <cstdint>

/// Threads of the host and a count of devices: CUDA's headers and OpenMP in one file.
int64_t devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return -1;
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < count; ++i) sum += omp_get_num_threads() > 0;
  return sum;
}
