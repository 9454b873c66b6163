#include <immintrin.h>
#include <omp.h>

/// Products of tiles of bfloat16 and of bytes, and of vectors; one to a thread.
void tiles(char *data, long count) {
#pragma omp parallel for num_threads(omp_get_num_procs())
  for (long i = 0; i < count; ++i) {
    char *place = data + 1024 * i;
    _tile_loadd(0, place, 64);
    _tile_loadd(1, place, 64);
    _tile_dpbf16ps(2, 0, 1);
    _tile_dpbssd(3, 0, 1);
    _tile_stored(2, place, 64);
    _tile_release();
    const __m512i bytes = _mm512_loadu_si512(place);
    const __m512 halves = _mm512_dpbf16_ps(_mm512_setzero_ps(), (__m512bh)bytes, (__m512bh)bytes);
    _mm512_storeu_si512(place, _mm512_dpbusd_epi32(_mm512_castps_si512(halves), bytes, bytes));
    _mm256_storeu_ps(reinterpret_cast<float *>(place), _mm256_cvtph_ps(_mm_loadu_si128((__m128i *)place)));
  }
}
