[% if cpu %]
// On a CPU the products are torch's: one for each expert.
#include "[[ module ]].h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "vectors.h"

namespace [[ module ]]_impl {
namespace {

using vectors::BFloat16;
using vectors::Half;
using vectors::kAlone;
using vectors::load;

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

// The rows of x that an expert multiplies: where they are, or copies if they do not lie in this order.
at::Tensor rows_of(const Product& tensors, std::int64_t begin, std::int64_t count, const at::TensorOptions& options) {
  auto* const x = static_cast<std::uint16_t*>(const_cast<void*>(tensors.x));
  if (tensors.sources == nullptr) {
    return at::from_blob(x + begin * tensors.x_stride, {count, tensors.depth}, {tensors.x_stride, 1}, options);
  }
  const at::Tensor rows = at::empty({count, tensors.depth}, options);
  auto* const to = static_cast<std::uint16_t*>(rows.data_ptr());
#pragma omp parallel for if (count * tensors.depth > kAlone)
  for (std::int64_t i = 0; i < count; ++i) {
    std::copy_n(x + tensors.sources[begin + i] * tensors.x_stride, tensors.depth, to + i * tensors.depth);
  }
  return rows;
}

VECTORS void add(float* __restrict__ sums, const float* __restrict__ values, float weight, std::int64_t columns) {
  for (std::int64_t i = 0; i < columns; ++i) {
    sums[i] += weight * values[i];
  }
}

template <typename T>
void combine_as(const Sum& tensors) {
#pragma omp parallel if (tensors.tokens * tensors.k * tensors.columns > kAlone)
  {
    std::vector<float> sums(tensors.columns);
    std::vector<float> memory(tensors.columns);
#pragma omp for
    for (std::int64_t token = 0; token < tensors.tokens; ++token) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (std::int64_t i = token * tensors.k; i < (token + 1) * tensors.k; ++i) {
        const T* const row = static_cast<const T*>(tensors.values) + tensors.places[i] * tensors.columns;
        add(sums.data(), vectors::widened(memory.data(), row, tensors.columns), tensors.weights[i], tensors.columns);
      }
      vectors::narrow(static_cast<T*>(tensors.out) + token * tensors.columns, sums.data(), tensors.columns);
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
  const at::TensorOptions options(type == Type::float16 ? at::kHalf : at::kBFloat16);
  const auto matrix = [&](const void* first, at::IntArrayRef sizes, at::IntArrayRef strides) {
    return at::from_blob(const_cast<void*>(first), sizes, strides, options);
  };
  const std::int64_t next_row = tensors.by_columns ? 1 : tensors.weight_stride;
  const std::int64_t next_column = tensors.by_columns ? tensors.weight_stride : 1;
  const at::Tensor weights = matrix(tensors.weights, {tensors.experts, tensors.depth, tensors.columns},
                                    {tensors.expert_stride, next_row, next_column});
  const at::Tensor out = matrix(tensors.out, {tensors.rows, tensors.columns}, {tensors.columns, 1});
  for (std::int64_t expert = 0; expert < tensors.experts; ++expert) {
    const std::int64_t begin = tensors.offsets[expert];
    const std::int64_t count = tensors.offsets[expert + 1] - begin;
    if (count == 0) {
      continue;
    }
    at::Tensor to = out.narrow(0, begin, count);
    at::mm_out(to, rows_of(tensors, begin, count, options), weights[expert]);
  }
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
