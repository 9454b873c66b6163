// ReLU on the CPU, without torch: pointers in, pointers out.
#pragma once

#include <cstdint>

namespace relu_cpu {

// out[i] = in[i] where it is positive or NaN, else 0; `out` may be `in`.
void float32(float* out, const float* in, std::int64_t count);
void float16(std::uint16_t* out, const std::uint16_t* in, std::int64_t count);
void bfloat16(std::uint16_t* out, const std::uint16_t* in, std::int64_t count);

}  // namespace relu_cpu
