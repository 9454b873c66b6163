// float16 and bfloat16 as bits, read and rounded without a branch, so that loops fit vectors.
INLINE std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

INLINE float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct Half {
  std::uint16_t bits;
};

struct BFloat16 {
  std::uint16_t bits;
};

INLINE float load(const float& value) { return value; }

INLINE float load(const BFloat16& value) { return float_of(static_cast<std::uint32_t>(value.bits) << 16); }

INLINE float load(const Half& value) {
  const std::uint32_t rest = (value.bits & 0x7fffu) << 13;
  const std::uint32_t finite = bits_of(float_of(rest) * 0x1p112f);
  const std::uint32_t magnitude = rest >= 0x0f800000u ? rest | 0x7f800000u : finite;
  return float_of(magnitude | (value.bits & 0x8000u) << 16);
}

INLINE void store(float& to, float value) { to = value; }

// Rounds to the nearest, and to the even one of two.
INLINE void store(BFloat16& to, float value) {
  const std::uint32_t all = bits_of(value);
  const std::uint32_t rounded = (all + 0x7fffu + (all >> 16 & 1u)) >> 16;
  const std::uint32_t nan = all >> 16 | 0x40u;
  to.bits = static_cast<std::uint16_t>((all & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

INLINE void store(Half& to, float value) {
  const std::uint32_t all = bits_of(value);
  const std::uint32_t rest = all & 0x7fffffffu;
  const std::uint32_t normal = (rest + 0xfffu + (rest >> 13 & 1u) - (112u << 23)) >> 13;
  // Adding 0.5 rounds to a multiple of the smallest float16.
  const std::uint32_t small = bits_of(float_of(rest) + 0.5f) - 0x3f000000u;
  const std::uint32_t finite = rest < 0x38800000u ? small : normal;
  const std::uint32_t bounded = rest >= 0x477ff000u ? 0x7c00u : finite;
  const std::uint32_t magnitude = rest > 0x7f800000u ? 0x7e00u : bounded;
  to.bits = static_cast<std::uint16_t>(magnitude | (all >> 16 & 0x8000u));
}
