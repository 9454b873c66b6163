[% if cpu %]
#include "[[ module ]].h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "small_floats.h"

namespace [[ module ]]_impl {
namespace {

// What each of the 256 bytes stands for.
std::vector<float> all_values() {
  std::vector<float> values(256);
  for (int byte = 0; byte < 256; ++byte) {
    const int exponent = byte >> 3 & 15;
    const int fraction = byte & 7;
    float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
    if (exponent == 15 && fraction == 7) {
      value = std::numeric_limits<float>::quiet_NaN();
    }
    values[byte] = byte < 128 ? value : -value;
  }
  return values;
}

void put(float& out, float sum) { out = sum; }

template <typename T>
void put(T& out, float sum) {
  out = small_floats::round_to<T>(sum);
}

template <typename T>
void run_as(void* out, const void* a, const void* b, const Sizes& sizes, const Scales& scales) {
  static const std::vector<float> values = all_values();
  std::vector<float> own(sizes.depth);
  for (std::int64_t column = 0; column < sizes.columns; ++column) {
    const auto* const right = static_cast<const std::uint8_t*>(b) + column * sizes.depth;
    std::transform(right, right + sizes.depth, own.begin(), [](std::uint8_t byte) { return values[byte]; });
    const float* const b_scale = scales.b + (scales.blocks ? column / kBlock : column) * scales.b_column;
    for (std::int64_t row = 0; row < sizes.rows; ++row) {
      const auto* const left = static_cast<const std::uint8_t*>(a) + row * sizes.depth;
      const float* const a_scale = scales.a + row * scales.a_row;
      float sum = 0.0f;
      for (std::int64_t block = 0; block * kBlock < sizes.depth; ++block) {
        float part = 0.0f;
        for (std::int64_t k = block * kBlock; k < std::min(sizes.depth, (block + 1) * kBlock); ++k) {
          part += values[left[k]] * own[k];
        }
        sum += scales.blocks ? part * (a_scale[block * scales.a_step] * b_scale[block * scales.b_step]) : part;
      }
      put(static_cast<T*>(out)[row * sizes.columns + column], scales.blocks ? sum : sum * (*a_scale * *b_scale));
    }
  }
}

}  // namespace

int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes, const Scales& scales, bool, void*,
        void*) {
  switch (type) {
    case Type::float16:
      run_as<small_floats::Half>(out, a, b, sizes, scales);
      break;
    case Type::bfloat16:
      run_as<small_floats::BFloat16>(out, a, b, sizes, scales);
      break;
    case Type::float32:
      run_as<float>(out, a, b, sizes, scales);
      break;
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
