#include "relu.h"

namespace relu_cpu {
namespace {

// Sign and magnitude of a 16-bit float stand in the same bits in every format; formats differ in the bits of infinity,
// beyond which a magnitude is NaN.
template <std::uint16_t Infinity>
void sixteen_bits(std::uint16_t* out, const std::uint16_t* in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const bool negative = in[i] & 0x8000;
    const bool nan = (in[i] & 0x7fff) > Infinity;
    out[i] = negative && !nan ? 0 : in[i];
  }
}

}  // namespace

void float32(float* out, const float* in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = in[i] <= 0.0f ? 0.0f : in[i];
  }
}

void float16(std::uint16_t* out, const std::uint16_t* in, std::int64_t count) {
  sixteen_bits<0x7c00>(out, in, count);
}

void bfloat16(std::uint16_t* out, const std::uint16_t* in, std::int64_t count) {
  sixteen_bits<0x7f80>(out, in, count);
}

}  // namespace relu_cpu
