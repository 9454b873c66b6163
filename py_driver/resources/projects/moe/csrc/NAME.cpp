[% if cpu %]
#include "[[ module ]].h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

[% include "projects/parts/vectors.cpp" %]

namespace [[ module ]]_impl {
namespace {

constexpr int kRows = 4;                  // rows that are computed at the same time
constexpr int kColumns = 64;              // columns of theirs
constexpr int kLanes = 32;                // sums that a dot product is added up in, so that they fit vectors
constexpr std::int64_t kAlone = 1 << 14;  // elements for which one thread is enough

[% include "projects/parts/vector_floats.cpp" %]

float logit(Type type, const void* logits, std::int64_t i) {
  switch (type) {
    case Type::float16:
      return load(static_cast<const Half*>(logits)[i]);
    case Type::bfloat16:
      return load(static_cast<const BFloat16*>(logits)[i]);
    default:
      return static_cast<const float*>(logits)[i];
  }
}

// The experts of a token, and their weights. A NaN is larger than all numbers, as torch.topk has it.
void choose(Type type, const Route& tensors, std::int64_t token) {
  std::vector<float> logits(tensors.count);
  for (std::int64_t i = 0; i < tensors.count; ++i) {
    logits[i] = logit(type, tensors.logits, token * tensors.count + i);
  }
  std::vector<std::int32_t> order(tensors.count);
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](std::int32_t left, std::int32_t right) {
    const bool left_nan = std::isnan(logits[left]);
    const bool right_nan = std::isnan(logits[right]);
    if (left_nan != right_nan) {
      return left_nan;
    }
    return left_nan || logits[left] == logits[right] ? left < right : logits[left] > logits[right];
  };
  std::partial_sort(order.begin(), order.begin() + tensors.k, order.end(), is_before);
  const float largest = logits[order[0]];
  float all = 0.0f;
  for (const float value : logits) {
    all += std::exp(value - largest);
  }
  float chosen = 0.0f;
  for (std::int64_t i = 0; i < tensors.k; ++i) {
    chosen += std::exp(logits[order[i]] - largest);
  }
  for (std::int64_t i = 0; i < tensors.k; ++i) {
    tensors.experts[token * tensors.k + i] = order[i];
    tensors.weights[token * tensors.k + i] =
        std::exp(logits[order[i]] - largest) / (tensors.normalize ? chosen : all);
  }
}

// kRows rows of x times kColumns columns of a weight, or fewer of both.
template <typename T>
INLINE void multiply_part(float (&sums)[kRows][kColumns], const T* const (&x)[kRows], const T* weight,
                          std::int64_t stride, bool by_columns, std::int64_t depth, int rows, int columns) {
  std::memset(sums, 0, sizeof sums);
  if (by_columns) {
    for (int column = 0; column < columns; ++column) {
      for (int row = 0; row < rows; ++row) {
        float lanes[kLanes] = {};
        std::int64_t i = 0;
        for (; i + kLanes <= depth; i += kLanes) {
          for (int k = 0; k < kLanes; ++k) {
            lanes[k] += load(x[row][i + k]) * load(weight[column * stride + i + k]);
          }
        }
        for (; i < depth; ++i) {
          lanes[i % kLanes] += load(x[row][i]) * load(weight[column * stride + i]);
        }
        sums[row][column] = std::accumulate(lanes, lanes + kLanes, 0.0f);
      }
    }
    return;
  }
  for (std::int64_t i = 0; i < depth; ++i) {
    float values[kColumns] = {};
    for (int column = 0; column < columns; ++column) {
      values[column] = load(weight[i * stride + column]);
    }
    for (int row = 0; row < rows; ++row) {
      const float factor = load(x[row][i]);
      for (int column = 0; column < kColumns; ++column) {
        sums[row][column] += factor * values[column];
      }
    }
  }
}

template <typename T>
INLINE void add_row(float* sums, const T* values, float weight, std::int64_t columns) {
  for (std::int64_t i = 0; i < columns; ++i) {
    sums[i] += weight * load(values[i]);
  }
}

// What the loader chooses among: a function for each type, since a template has no clones.
#define FOR_TYPE(T)                                                                                                \
  VECTORS void call_multiply(float (&sums)[kRows][kColumns], const T* const (&x)[kRows], const T* weight,          \
                             std::int64_t stride, bool by_columns, std::int64_t depth, int rows, int columns) {    \
    multiply_part(sums, x, weight, stride, by_columns, depth, rows, columns);                                      \
  }                                                                                                                \
  VECTORS void call_add(float* sums, const T* values, float weight, std::int64_t columns) {                        \
    add_row(sums, values, weight, columns);                                                                        \
  }

FOR_TYPE(Half)
FOR_TYPE(BFloat16)

template <typename T>
void multiply_as(const Product& tensors) {
  const std::int64_t parts = (tensors.columns + kColumns - 1) / kColumns;
  for (std::int64_t expert = 0; expert < tensors.experts; ++expert) {
    const std::int64_t begin = tensors.offsets[expert];
    const std::int64_t end = tensors.offsets[expert + 1];
    const T* const weights = static_cast<const T*>(tensors.weights) + expert * tensors.expert_stride;
#pragma omp parallel for if ((end - begin) * tensors.columns * tensors.depth > kAlone)
    for (std::int64_t i = 0; i < (end - begin + kRows - 1) / kRows * parts; ++i) {
      const std::int64_t first = begin + i / parts * kRows;
      const std::int64_t column = i % parts * kColumns;
      const int rows = static_cast<int>(std::min<std::int64_t>(kRows, end - first));
      const int columns = static_cast<int>(std::min<std::int64_t>(kColumns, tensors.columns - column));
      const T* x[kRows] = {};
      for (int row = 0; row < rows; ++row) {
        const std::int64_t source = tensors.sources != nullptr ? tensors.sources[first + row] : first + row;
        x[row] = static_cast<const T*>(tensors.x) + source * tensors.x_stride;
      }
      float sums[kRows][kColumns];
      call_multiply(sums, x, weights + column * (tensors.by_columns ? tensors.weight_stride : 1),
                    tensors.weight_stride, tensors.by_columns, tensors.depth, rows, columns);
      for (int row = 0; row < rows; ++row) {
        T* const out = static_cast<T*>(tensors.out) + (first + row) * tensors.columns + column;
        for (int k = 0; k < columns; ++k) {
          store(out[k], sums[row][k]);
        }
      }
    }
  }
}

template <typename T>
void combine_as(const Sum& tensors) {
#pragma omp parallel if (tensors.tokens * tensors.k * tensors.columns > kAlone)
  {
    std::vector<float> sums(tensors.columns);
#pragma omp for
    for (std::int64_t token = 0; token < tensors.tokens; ++token) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (std::int64_t i = token * tensors.k; i < (token + 1) * tensors.k; ++i) {
        call_add(sums.data(), static_cast<const T*>(tensors.values) + tensors.places[i] * tensors.columns,
                 tensors.weights[i], tensors.columns);
      }
      for (std::int64_t i = 0; i < tensors.columns; ++i) {
        store(static_cast<T*>(tensors.out)[token * tensors.columns + i], sums[i]);
      }
    }
  }
}

}  // namespace

int route(Type type, const Route& tensors, void*) {
#pragma omp parallel for if (tensors.tokens * tensors.count > kAlone)
  for (std::int64_t token = 0; token < tensors.tokens; ++token) {
    choose(type, tensors, token);
  }
  const std::int64_t pairs = tensors.tokens * tensors.k;
  std::fill(tensors.offsets, tensors.offsets + tensors.count + 1, 0);
  for (std::int64_t i = 0; i < pairs; ++i) {
    ++tensors.offsets[tensors.experts[i] + 1];
  }
  std::partial_sum(tensors.offsets, tensors.offsets + tensors.count + 1, tensors.offsets);
  std::vector<std::int32_t> next(tensors.offsets, tensors.offsets + tensors.count);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int32_t place = next[tensors.experts[i]]++;
    tensors.places[i] = place;
    tensors.sources[place] = static_cast<std::int32_t>(i / tensors.k);
  }
  return 0;
}

int multiply(Type type, const Product& tensors, void*, void*) {
  type == Type::float16 ? multiply_as<Half>(tensors) : multiply_as<BFloat16>(tensors);
  return 0;
}

int combine(Type type, const Sum& tensors, void*) {
  type == Type::float16 ? combine_as<Half>(tensors) : combine_as<BFloat16>(tensors);
  return 0;
}

std::int64_t scratch_bytes(const Product&) { return 0; }

std::int64_t working_size(std::int64_t, std::int64_t, std::int64_t) { return 0; }

}  // namespace [[ module ]]_impl
[% endif %]
