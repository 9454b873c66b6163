#include "double.h"

void doubled(float* out, const float* in, long count) {
  for (long i = 0; i < count; ++i) out[i] = 2 * in[i];
}
