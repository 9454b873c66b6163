#include <immintrin.h>

#include "simd.h"

int32_t dot(const int8_t *a, const int8_t *b, int64_t count) {
  __m256i total = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i left = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(a + i)));
    const __m256i right = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(b + i)));
    total = _mm256_add_epi32(total, _mm256_madd_epi16(left, right));
  }
  alignas(32) int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i *>(lanes), total);
  int32_t result = 0;
  for (const int32_t lane : lanes) result += lane;
  for (; i < count; ++i) result += a[i] * b[i];
  return result;
}
