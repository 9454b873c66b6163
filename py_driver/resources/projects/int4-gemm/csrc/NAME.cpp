[% if cpu %]
// On a CPU a part of the weights at a time becomes float32, and torch multiplies it while it is in the cache, in each
// thread another part. For a single row that would take longer than the product.
#include "[[ module ]].h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <vector>

#include "vectors.h"

namespace [[ module ]]_impl {
namespace {

constexpr std::int64_t kPart = 1 << 17;  // wide weights at a time, and at least those of kLeast columns
constexpr std::int64_t kLeast = 128;
constexpr int kEach = 8;  // weights in a word of 32 bits

// Weight `i` of a word.
INLINE float weight_of(std::uint32_t word, int i) {
  return static_cast<float>(static_cast<std::int32_t>(word << (28 - 4 * i)) >> 28);
}

// The product of a row of weights, `count` words, with a row of x in the order of `ordered`. Each word has a scale.
VECTORS float product(const std::uint32_t* words, const float* scales, const float* x, std::int64_t count) {
  return vectors::added(count, [&](std::int64_t word) {
    float sum = 0.0f;
    for (int i = 0; i < kEach; ++i) {
      sum += weight_of(words[word], i) * x[i * count + word];
    }
    return sum * scales[word];
  });
}

// `count` words of weights that have a scale, in their own order.
VECTORS void widen(float* __restrict__ to, const std::uint32_t* __restrict__ words, float scale, std::int64_t count) {
  for (std::int64_t word = 0; word < count; ++word) {
#pragma omp simd
    for (int i = 0; i < kEach; ++i) {
      to[kEach * word + i] = weight_of(words[word], i) * scale;
    }
  }
}

// A row of x in float32, in another order: first the values that meet the first weights of all words, then those that
// meet the second ones. So no loop puts the weights of a word side by side.
at::Tensor ordered(const void* x, const Sizes& sizes, at::ScalarType type) {
  const at::Tensor given =
      at::from_blob(const_cast<void*>(x), {sizes.depth / kEach, kEach}, at::TensorOptions(type));
  return at::empty({kEach, sizes.depth / kEach}, at::kFloat).copy_(given.t());
}

template <typename T>
void multiply_row(T* out, const void* x, const void* weight, const void* scales, const Sizes& sizes,
                  at::ScalarType type) {
  const at::Tensor wide = ordered(x, sizes, type);
  const float* const row = wide.const_data_ptr<float>();
  const std::int64_t count = sizes.depth / kEach;
  const std::int64_t groups = sizes.depth / sizes.group;
#pragma omp parallel if (sizes.columns * sizes.depth > vectors::kAlone)
  {
    std::vector<float> factors(count);
#pragma omp for
    for (std::int64_t column = 0; column < sizes.columns; ++column) {
      for (std::int64_t group = 0; group < groups; ++group) {
        std::fill_n(factors.data() + group * count / groups, count / groups,
                    vectors::load(static_cast<const T*>(scales)[column * groups + group]));
      }
      const std::uint32_t* const words = static_cast<const std::uint32_t*>(weight) + column * count;
      vectors::store(out[column], product(words, factors.data(), row, count));
    }
  }
}

template <typename T>
void multiply_many(T* out, const void* x, const void* weight, const void* scales, const Sizes& sizes,
                   at::ScalarType type) {
  const at::Tensor rows =
      at::from_blob(const_cast<void*>(x), {sizes.rows, sizes.depth}, at::TensorOptions(type)).to(at::kFloat);
  const std::int64_t most = std::min(sizes.columns, std::max(kPart / sizes.depth, kLeast));
  at::parallel_for(0, (sizes.columns + most - 1) / most, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor wide = at::empty({most, sizes.depth}, at::kFloat);
    float* const values = wide.data_ptr<float>();
    for (std::int64_t first = begin * most; first < std::min(sizes.columns, end * most); first += most) {
      const std::int64_t some = std::min(most, sizes.columns - first);
      const std::int64_t before = first * sizes.depth / sizes.group;
      for (std::int64_t group = before; group < before + some * sizes.depth / sizes.group; ++group) {
        widen(values + (group - before) * sizes.group,
              static_cast<const std::uint32_t*>(weight) + group * sizes.group / kEach,
              vectors::load(static_cast<const T*>(scales)[group]), sizes.group / kEach);
      }
      // MKL is faster with these numbers of rows as columns.
      const bool turned = sizes.rows > 8 && sizes.rows <= 48;
      const at::Tensor part = wide.narrow(0, 0, some);
      at::Tensor sums = turned ? at::empty({some, sizes.rows}, at::kFloat) : at::empty({sizes.rows, some}, at::kFloat);
      turned ? at::mm_out(sums, part, rows.t()) : at::mm_out(sums, rows, part.t());
      const at::Tensor dense = turned ? sums.t().contiguous() : sums;
      for (std::int64_t row = 0; row < sizes.rows; ++row) {
        vectors::narrow(out + row * sizes.columns + first, dense.const_data_ptr<float>() + row * some, some);
      }
    }
  });
}

template <typename T>
void run_as(void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes,
            at::ScalarType type) {
  if (sizes.rows == 1) {
    multiply_row(static_cast<T*>(out), x, weight, scales, sizes, type);
  } else {
    multiply_many(static_cast<T*>(out), x, weight, scales, sizes, type);
  }
}

}  // namespace

int run(Type type, void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes, void*) {
  switch (type) {
    case Type::float16:
      run_as<vectors::Half>(out, x, weight, scales, sizes, at::kHalf);
      break;
    case Type::bfloat16:
      run_as<vectors::BFloat16>(out, x, weight, scales, sizes, at::kBFloat16);
      break;
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
