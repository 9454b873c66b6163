[% if cpu %]
#include "[[ module ]].h"

#include <vector>

#include "small_floats.h"

namespace [[ module ]]_impl {
namespace {

template <typename T>
void run_as(void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes) {
  const auto* packed = static_cast<const std::uint8_t*>(weight);
  const auto* scale = static_cast<const T*>(scales);
  std::vector<float> own(sizes.depth);
  for (std::int64_t column = 0; column < sizes.columns; ++column) {
    for (std::int64_t k = 0; k < sizes.depth; ++k) {
      const int byte = packed[(column * sizes.depth + k) / 2];
      const int value = k % 2 == 0 ? byte & 15 : byte >> 4;
      own[k] = static_cast<float>(value > 7 ? value - 16 : value);
    }
    for (std::int64_t row = 0; row < sizes.rows; ++row) {
      const auto* from = static_cast<const T*>(x) + row * sizes.depth;
      float sum = 0.0f;
      for (std::int64_t first = 0; first < sizes.depth; first += sizes.group) {
        float part = 0.0f;
        for (std::int64_t k = first; k < first + sizes.group; ++k) {
          part += static_cast<float>(from[k]) * own[k];
        }
        sum += part * static_cast<float>(scale[(column * sizes.depth + first) / sizes.group]);
      }
      static_cast<T*>(out)[row * sizes.columns + column] = small_floats::round_to<T>(sum);
    }
  }
}

}  // namespace

int run(Type type, void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes, void*) {
  switch (type) {
    case Type::float16:
      run_as<small_floats::Half>(out, x, weight, scales, sizes);
      break;
    case Type::bfloat16:
      run_as<small_floats::BFloat16>(out, x, weight, scales, sizes);
      break;
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
