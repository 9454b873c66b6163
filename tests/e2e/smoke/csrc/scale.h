#pragma once

#include <cstdint>

/// out[i] = factor * in[i]; `stream` is a cudaStream_t, and null on the CPU.
void scale(float *out, const float *in, float factor, std::int64_t count, void *stream);
