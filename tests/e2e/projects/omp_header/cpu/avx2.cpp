#include "avx2.hpp"

int64_t team() {
  int64_t count = 0;
#pragma omp parallel reduction(+ : count)
  count += 1;
  return count;
}
