#include <omp.h>

#include <cstdint>

#if !defined(__HIP_DEVICE_COMPILE__) && _OPENMP != 201511
#error "OpenMP is as new as gcc's"
#endif

__global__ void fill(int64_t *out, int64_t value) { out[threadIdx.x] = value; }

/// Sums 0 to n - 1 on the host, with all of torch's threads; and how many these were.
int64_t sum(int64_t n, int64_t *threads) {
  int64_t total = 0;
#pragma omp parallel for reduction(+ : total) schedule(dynamic, 100)
  for (int64_t i = 0; i < n; ++i) total += i;
#pragma omp parallel
#pragma omp single
  *threads = omp_get_num_threads();
  return total;
}

void launch(int64_t *out, int64_t value) { fill<<<1, 32>>>(out, value); }
