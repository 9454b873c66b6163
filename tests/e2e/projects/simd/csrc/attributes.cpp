#include "simd.h"

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) static int32_t sum_wide(const int32_t *values, int64_t count) {
  __m256i total = _mm256_setzero_si256();
  for (int64_t i = 0; i < count; i += 8)
    total = _mm256_add_epi32(total, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(values + i)));
  alignas(32) int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i *>(lanes), total);
  int32_t result = 0;
  for (const int32_t lane : lanes) result += lane;
  return result;
}

static bool has_wide() { return __builtin_cpu_supports("avx2"); }
#else
#include <arm_neon.h>

static int32_t sum_wide(const int32_t *values, int64_t count) {
  int32x4_t total = vdupq_n_s32(0);
  for (int64_t i = 0; i < count; i += 4) total = vaddq_s32(total, vld1q_s32(values + i));
  return vaddvq_s32(total);
}

static bool has_wide() { return true; }
#endif

int32_t sum(const int32_t *values, int64_t count) {
  const int64_t wide = has_wide() ? count / 8 * 8 : 0;
  int32_t result = sum_wide(values, wide);
  for (int64_t i = wide; i < count; ++i) result += values[i];
  return result;
}
