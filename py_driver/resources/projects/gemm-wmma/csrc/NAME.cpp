[% if cpu %]
#include "[[ module ]].h"

#include <vector>

#include "small_floats.h"

namespace [[ module ]]_impl {
namespace {

// The sums as they are, and as float16 can hold them.
struct Same {
  template <typename T>
  T operator()(T value) const {
    return value;
  }
};

struct Narrow {
  float operator()(float value) const { return static_cast<float>(small_floats::Half::from(value)); }
};

template <typename In, typename Sum, typename Out, class Rounded = Same>
void run_as(void* out, const void* a, const void* b, const Sizes& sizes) {
  const Rounded rounded;
  auto* to = static_cast<Out*>(out);
  const auto* left = static_cast<const In*>(a);
  const auto* right = static_cast<const In*>(b);
  const std::int64_t along_row = sizes.by_columns ? sizes.depth : 1;
  const std::int64_t along_column = sizes.by_columns ? 1 : sizes.columns;
  std::vector<Sum> sums(sizes.columns);
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    sums.assign(sizes.columns, Sum(0));
    for (std::int64_t k = 0; k < sizes.depth; ++k) {
      const auto factor = static_cast<Sum>(left[row * sizes.depth + k]);
      for (std::int64_t column = 0; column < sizes.columns; ++column) {
        const Sum product = factor * static_cast<Sum>(right[k * along_column + column * along_row]);
        sums[column] = rounded(sums[column] + product);
      }
    }
    for (std::int64_t column = 0; column < sizes.columns; ++column) {
      if constexpr (sizeof(Sum) == sizeof(Out)) {
        to[row * sizes.columns + column] = sums[column];
      } else {
        to[row * sizes.columns + column] = small_floats::round_to<Out>(sums[column]);
      }
    }
  }
}

}  // namespace

std::int64_t scratch_bytes(Type, const void*, const void*, const void*, const Sizes&) { return 0; }

int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void*, void*) {
  switch (type) {
    case Type::float16:
      run_as<small_floats::Half, float, small_floats::Half>(out, a, b, sizes);
      break;
    case Type::narrow_float16:
      run_as<small_floats::Half, float, small_floats::Half, Narrow>(out, a, b, sizes);
      break;
    case Type::bfloat16:
      run_as<small_floats::BFloat16, float, small_floats::BFloat16>(out, a, b, sizes);
      break;
    case Type::int8:
      run_as<std::int8_t, std::int32_t, std::int32_t>(out, a, b, sizes);
      break;
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
