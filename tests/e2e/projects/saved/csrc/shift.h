#pragma once

#define SHIFT 1

void shift(const float* input, float* output, long count, float by);
