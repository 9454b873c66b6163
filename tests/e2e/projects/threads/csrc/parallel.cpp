#include <ATen/Parallel.h>

#include <atomic>

#include "threads.h"

static thread_local int64_t met;

int64_t parallel(int64_t size) {
  std::atomic<int64_t> sum{0};
  at::parallel_for(0, size, 10, [&](int64_t begin, int64_t end) {
    met = 0;
    for (int64_t i = begin; i < end; ++i) ++met;
    sum += met;
  });
  return sum;
}
