#include <arm_neon.h>

#include "simd.h"

int32_t dot(const int8_t *a, const int8_t *b, int64_t count) {
  int32x4_t total = vdupq_n_s32(0);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) total = vdotq_s32(total, vld1q_s8(a + i), vld1q_s8(b + i));
  int32_t result = vaddvq_s32(total);
  for (; i < count; ++i) result += a[i] * b[i];
  return result;
}
