[% if cpu %]
// What loops on the CPU are made of, so that they fit vectors. No header of torch is needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

// Stands before a function that is compiled for AVX-512 and AVX2 as well; the loader takes what the machine has. A
// template has no such clones.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#define VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define F16C __attribute__((target("arch=x86-64-v3")))
#define NO_F16C __attribute__((target("default")))
#else
#define NO_F16C
#define VECTORS
#endif
// Stands before what such functions call: it becomes a part of each clone.
#define INLINE inline __attribute__((always_inline))

namespace vectors {

constexpr std::int64_t kAlone = 1 << 14;  // elements for which one thread is enough
constexpr std::int64_t kChunk = 1 << 11;  // elements at a time: as float32 they stay in the nearest cache

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

// float16 and bfloat16 as bits, read and rounded without a branch.
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
  // Without a number below the normal ones of float, which torch.set_flush_denormal would make 0.
  const std::uint32_t small = bits_of(float_of(rest >> 13 | 0x3f000000u) - 0.5f);
  const std::uint32_t finite = rest < 0x00800000u ? small : rest + (112u << 23);
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

template <typename T>
INLINE void load_each(float* __restrict__ to, const T* __restrict__ from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = load(from[i]);
  }
}

template <typename T>
INLINE void store_each(T* __restrict__ to, const float* __restrict__ from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    store(to[i], from[i]);
  }
}

// `count` elements as float32, in `memory` or where they are.
inline const float* widened(float*, const float* from, std::int64_t) { return from; }

// Where loops write what then is stored in `to`: there, or in `memory`.
inline float* room(float*, float* to) { return to; }

template <typename T>
float* room(float* memory, T*) {
  return memory;
}

// Stores what lies in the room for it.
inline void narrow(float*, const float*, std::int64_t) {}

VECTORS inline const float* widened(float* memory, const BFloat16* from, std::int64_t count) {
  load_each(memory, from, count);
  return memory;
}

VECTORS inline void narrow(BFloat16* to, const float* from, std::int64_t count) { store_each(to, from, count); }

NO_F16C inline const float* widened(float* memory, const Half* from, std::int64_t count) {
  load_each(memory, from, count);
  return memory;
}

NO_F16C inline void narrow(Half* to, const float* from, std::int64_t count) { store_each(to, from, count); }

// With the instructions for float16, which gcc 12 does not make vectors of by itself.
#ifdef F16C
F16C inline const float* widened(float* memory, const Half* from, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(memory + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  load_each(memory + i, from + i, count - i);
  return memory;
}

F16C inline void narrow(Half* to, const float* from, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bits);
  }
  store_each(to + i, from + i, count - i);
}
#endif

// exp(x) for x <= 0, to two units in the last place.
INLINE float exp_of_negative(float x) {
  const float bounded = x < -104.0f ? -104.0f : x;  // of which exp rounds to 0
  const float shifted = bounded * 1.44269504f + 0x1.8p23f;
  const float n = shifted - 0x1.8p23f;
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  // 2^n in two factors: it may be less than the smallest normal number.
  const auto exponent = static_cast<std::int32_t>(bits_of(shifted) - bits_of(0x1.8p23f));
  const std::int32_t half = exponent >> 1;
  const float low = float_of(static_cast<std::uint32_t>(half + 127) << 23);
  const float high = float_of(static_cast<std::uint32_t>(exponent - half + 127) << 23);
  return sum * low * high;
}

INLINE float sigmoid(float x) {
  const float small = exp_of_negative(x > 0.0f ? -x : x);
  return (x > 0.0f ? 1.0f : small) / (1.0f + small);
}

// start, and value(i) for all i from `first` up to `end`, put together by an associative function.
template <class Value, class Combine>
INLINE float combined(std::int64_t first, std::int64_t end, float start, Value value, Combine combine) {
  constexpr int kLanes = 32;
  float lanes[kLanes];
  for (float& lane : lanes) {
    lane = start;
  }
  std::int64_t i = first;
  for (; i + kLanes <= end; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) {
      lanes[k] = combine(lanes[k], value(i + k));
    }
  }
  for (int k = 0; i < end; ++i, ++k) {
    lanes[k] = combine(lanes[k], value(i));
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) {
      lanes[k] = combine(lanes[k], lanes[k + half]);
    }
  }
  return lanes[0];
}

// The sum of value(i) for all i below `count`. Sums of chunks are added up in float64: long rows lose nothing.
template <class Value>
INLINE float added(std::int64_t count, Value value) {
  double sum = 0.0;
  for (std::int64_t first = 0; first < count; first += kChunk) {
    const std::int64_t end = std::min(count, first + kChunk);
    sum += combined(first, end, 0.0f, value, [](float left, float right) { return left + right; });
  }
  return static_cast<float>(sum);
}

}  // namespace vectors
[% endif %]
