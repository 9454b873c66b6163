[% if cpu %]
#include "[[ module ]].h"

#include <cmath>
#include <limits>

#include "small_floats.h"

namespace [[ module ]]_impl {
namespace {

template <typename T>
void run_as(void* out, const void* in, std::int64_t rows, std::int64_t columns) {
  auto* to = static_cast<T*>(out);
  const auto* from = static_cast<const T*>(in);
  for (std::int64_t row = 0; row < rows; ++row, to += columns, from += columns) {
    float largest = -std::numeric_limits<float>::max();
    for (std::int64_t i = 0; i < columns; ++i) {
      const float x = static_cast<float>(from[i]);
      largest = x > largest ? x : largest;
    }
    double sum = 0.0;
    for (std::int64_t i = 0; i < columns; ++i) {
      sum += std::exp(static_cast<float>(from[i]) - largest);
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      to[i] = small_floats::round_to<T>(std::exp(static_cast<float>(from[i]) - largest) / static_cast<float>(sum));
    }
  }
}

}  // namespace

int run(Type type, void* out, const void* in, std::int64_t rows, std::int64_t columns, int, void*) {
  switch (type) {
    case Type::float32:
      run_as<float>(out, in, rows, columns);
      break;
    case Type::float16:
      run_as<small_floats::Half>(out, in, rows, columns);
      break;
    case Type::bfloat16:
      run_as<small_floats::BFloat16>(out, in, rows, columns);
      break;
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
