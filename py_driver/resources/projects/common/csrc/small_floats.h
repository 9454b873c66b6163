[% if cpu %]
// float16 and bfloat16 on the CPU, as bits, without a header of torch.
#pragma once

#include <cstdint>
#include <cstring>

namespace small_floats {

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct Half {
  std::uint16_t bits;

  explicit operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
  }

  // Rounds to the nearest, and to the even one of two.
  static Half from(float value) {
    const std::uint32_t all = bits_of(value);
    const std::uint16_t sign = all >> 16 & 0x8000u;
    std::uint32_t rest = all & 0x7fffffffu;
    if (rest > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
    if (rest >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
    if (rest < 0x38800000u) {
      // Adding 0.5 rounds to a multiple of the smallest float16.
      return {static_cast<std::uint16_t>(sign | (bits_of(float_of(rest) + 0.5f) - 0x3f000000u))};
    }
    rest += 0xfffu + (rest >> 13 & 1u) - (112u << 23);
    return {static_cast<std::uint16_t>(sign | rest >> 13)};
  }
};

struct BFloat16 {
  std::uint16_t bits;

  explicit operator float() const { return float_of(static_cast<std::uint32_t>(bits) << 16); }

  static BFloat16 from(float value) {
    const std::uint32_t all = bits_of(value);
    if ((all & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>(all >> 16 | 0x40u)};
    return {static_cast<std::uint16_t>((all + 0x7fffu + (all >> 16 & 1u)) >> 16)};
  }
};

template <typename T>
T round_to(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return value;
  } else {
    return T::from(value);
  }
}

}  // namespace small_floats
[% endif %]
