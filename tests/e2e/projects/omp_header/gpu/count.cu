#include <omp.h>

#include "../cpu/count.hpp"

__global__ void one(int64_t* out) { *out = 1; }

void count(int64_t* team, int64_t* largest, bool* with_openmp) {
  *team = 1;
  *largest = omp_get_max_threads();
  *with_openmp = false;
}
