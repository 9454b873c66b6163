#include "dot.h"

#include <omp.h>

#include <atomic>

#ifndef SCALE
#define SCALE 1
#endif

double dot(const at::Tensor &a, const at::Tensor &b) {
  const auto *x = a.const_data_ptr<double>();
  const auto *y = b.const_data_ptr<double>();
  const int64_t n = a.numel();
  double sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 1000)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return SCALE * sum;
}

int64_t threads() { return omp_get_max_threads(); }

int64_t team() {
  std::atomic<int64_t> count{0};
#pragma omp parallel
  count += 1;
  return count;
}
