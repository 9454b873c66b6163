[% if cpu %]
// On a CPU both matrices become float32, which holds all values of float8, times their scales; torch multiplies them.
#include "[[ module ]].h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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

// `rows` rows of `depth` bytes, each kBlock of a row times its scale(row, block).
template <class Scale>
at::Tensor widened(const void* bytes, std::int64_t rows, std::int64_t depth, Scale scale) {
  static const std::vector<float> values = all_values();
  const at::Tensor wide = at::empty({rows, depth}, at::kFloat);
  float* const first = wide.data_ptr<float>();
#pragma omp parallel for if (rows * depth > 1 << 14)
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto* const from = static_cast<const std::uint8_t*>(bytes) + row * depth;
    float* const to = first + row * depth;
    for (std::int64_t begin = 0; begin < depth; begin += kBlock) {
      const float factor = scale(row, begin / kBlock);
      const std::int64_t end = std::min(depth, begin + kBlock);
      std::transform(from + begin, from + end, to + begin, [=](std::uint8_t byte) { return values[byte] * factor; });
    }
  }
  return wide;
}

}  // namespace

int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes, const Scales& scales, bool, void*,
        void*) {
  const at::Tensor left = widened(a, sizes.rows, sizes.depth, [&](std::int64_t row, std::int64_t block) {
    return scales.a[row * scales.a_row + block * scales.a_step];
  });
  const at::Tensor right = widened(b, sizes.columns, sizes.depth, [&](std::int64_t column, std::int64_t block) {
    return scales.b[(scales.blocks ? column / kBlock : column) * scales.b_column + block * scales.b_step];
  });
  const at::ScalarType of = type == Type::float32 ? at::kFloat : type == Type::bfloat16 ? at::kBFloat16 : at::kHalf;
  at::Tensor to = at::from_blob(out, {sizes.rows, sizes.columns}, at::TensorOptions(of));
  at::Tensor sums = type == Type::float32 ? to : at::empty({sizes.rows, sizes.columns}, at::kFloat);
  at::mm_out(sums, left, right.t());
  if (type != Type::float32) {
    to.copy_(sums);
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
