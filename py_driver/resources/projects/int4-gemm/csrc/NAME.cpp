[% if cpu %]
// On a CPU a part of the weights at a time becomes float32, and torch multiplies it while it is in the cache. For few
// rows that would take longer than the product.
#include "[[ module ]].h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <vector>

#include "vectors.h"

namespace [[ module ]]_impl {
namespace {

constexpr std::int64_t kFew = 4;         // rows that are multiplied without wide weights
constexpr std::int64_t kPart = 1 << 19;  // wide weights at a time
constexpr int kEach = 8;                 // weights in a word of 32 bits

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

// A row of weights in that order.
VECTORS void widen(float* __restrict__ to, const std::uint32_t* __restrict__ words, const float* __restrict__ scales,
                   std::int64_t count) {
  for (int i = 0; i < kEach; ++i) {
    for (std::int64_t word = 0; word < count; ++word) {
      to[i * count + word] = weight_of(words[word], i) * scales[word];
    }
  }
}

// x in float32, with its columns in another order: first those that meet the first weights of all words, then those
// that meet the second ones. So no loop puts the weights of a word side by side.
at::Tensor ordered(const void* x, const Sizes& sizes, at::ScalarType type) {
  const at::Tensor given = at::from_blob(const_cast<void*>(x), {sizes.rows, sizes.depth / kEach, kEach},
                                         at::TensorOptions(type));
  const at::Tensor wide = at::empty({sizes.rows, kEach, sizes.depth / kEach}, at::kFloat);
  return wide.copy_(given.transpose(1, 2)).view({sizes.rows, sizes.depth});
}

// Calls act(column, words, scales of the words) for some columns, by all threads.
template <typename T, class Act>
void each_column(std::int64_t first, std::int64_t end, const void* weight, const void* scales, const Sizes& sizes,
                 Act act) {
  const std::int64_t count = sizes.depth / kEach;
  const std::int64_t groups = sizes.depth / sizes.group;
#pragma omp parallel if ((end - first) * sizes.depth > vectors::kAlone)
  {
    std::vector<float> factors(count);
#pragma omp for
    for (std::int64_t column = first; column < end; ++column) {
      for (std::int64_t group = 0; group < groups; ++group) {
        std::fill_n(factors.data() + group * count / groups, count / groups,
                    vectors::load(static_cast<const T*>(scales)[column * groups + group]));
      }
      act(column, static_cast<const std::uint32_t*>(weight) + column * count, factors.data());
    }
  }
}

template <typename T>
void multiply_few(T* out, const at::Tensor& x, const void* weight, const void* scales, const Sizes& sizes) {
  const float* const rows = x.const_data_ptr<float>();
  each_column<T>(0, sizes.columns, weight, scales, sizes,
                 [&](std::int64_t column, const std::uint32_t* words, const float* factors) {
                   for (std::int64_t row = 0; row < sizes.rows; ++row) {
                     const float sum = product(words, factors, rows + row * sizes.depth, sizes.depth / kEach);
                     vectors::store(out[row * sizes.columns + column], sum);
                   }
                 });
}

template <typename T>
void multiply_many(at::Tensor out, const at::Tensor& x, const void* weight, const void* scales, const Sizes& sizes) {
  const std::int64_t most = std::min(sizes.columns, std::max<std::int64_t>(kPart / sizes.depth, 1));
  const at::Tensor wide = at::empty({most, sizes.depth}, at::kFloat);
  float* const values = wide.data_ptr<float>();
  for (std::int64_t first = 0; first < sizes.columns; first += most) {
    const std::int64_t end = std::min(sizes.columns, first + most);
    each_column<T>(first, end, weight, scales, sizes,
                   [&](std::int64_t column, const std::uint32_t* words, const float* factors) {
                     widen(values + (column - first) * sizes.depth, words, factors, sizes.depth / kEach);
                   });
    at::Tensor sums = at::empty({sizes.rows, end - first}, at::kFloat);
    at::mm_out(sums, x, wide.narrow(0, 0, end - first).t());
    out.narrow(1, first, end - first).copy_(sums);
  }
}

template <typename T>
void run_as(void* out, const void* x, const void* weight, const void* scales, const Sizes& sizes,
            at::ScalarType type) {
  const at::Tensor rows = ordered(x, sizes, type);
  if (sizes.rows <= kFew) {
    multiply_few(static_cast<T*>(out), rows, weight, scales, sizes);
  } else {
    const at::Tensor to = at::from_blob(out, {sizes.rows, sizes.columns}, at::TensorOptions(type));
    multiply_many<T>(to, rows, weight, scales, sizes);
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
