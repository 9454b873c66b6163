[% if gpu %]
// Aids for debugging. With NDEBUG, which every build defines, they are empty; `cuda-flags = ["-UNDEBUG"]` in build.toml
// brings them back.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>

#ifdef NDEBUG

#define CUDA_CHECK(CALL) static_cast<void>(CALL)
#define DEVICE_ASSERT(CONDITION) static_cast<void>(0)
#define PRINT_ONCE(...) static_cast<void>(0)

#else

// Calls a function of the CUDA runtime, and says where it failed.
#define CUDA_CHECK(CALL)                                                                                  \
  do {                                                                                                    \
    const cudaError_t debug_result = (CALL);                                                              \
    if (debug_result != cudaSuccess) {                                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(debug_result));            \
    }                                                                                                     \
  } while (false)

// In device code: ends the kernel with an error where a condition does not hold.
#define DEVICE_ASSERT(CONDITION)                                                                    \
  do {                                                                                              \
    if (!(CONDITION)) {                                                                             \
      printf("%s:%d: block %u, thread %u: !(%s)\n", __FILE__, __LINE__, blockIdx.x, threadIdx.x, #CONDITION); \
      __trap();                                                                                     \
    }                                                                                               \
  } while (false)

// In device code: prints like printf, from the first thread of the first block alone.
#define PRINT_ONCE(...)                                                                                          \
  do {                                                                                                           \
    if (blockIdx.x + blockIdx.y + blockIdx.z + threadIdx.x + threadIdx.y + threadIdx.z == 0) printf(__VA_ARGS__); \
  } while (false)

#endif
[% endif %]
