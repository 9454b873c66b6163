#include "shift.h"

void shift(const float* input, float* output, long count, float by) {
  for (long i = 0; i < count; ++i) output[i] = input[i] * by + SHIFT;
}
