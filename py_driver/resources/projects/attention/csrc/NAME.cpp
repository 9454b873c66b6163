[% if cpu %]
#include "[[ module ]].h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sequences.h"
#include "small_floats.h"

namespace [[ module ]]_impl {
namespace {

template <typename T>
T* row_of(const View& view, std::int64_t batch, std::int64_t head, std::int64_t row) {
  return static_cast<T*>(view.at) + batch * view.batch + head * view.head + row * view.row;
}

template <typename T>
float dot(const T* a, const T* b, std::int64_t width) {
  float sum = 0.0f;
  for (std::int64_t i = 0; i < width; ++i) {
    sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  }
  return sum;
}

// How many keys a query sees.
std::int64_t seen(const Sizes& sizes, std::int64_t query) {
  return sizes.causal ? std::clamp<std::int64_t>(query + 1 + sizes.keys - sizes.queries, 0, sizes.keys) : sizes.keys;
}

// Calls a function for each query: with its batch, its head, its number, and the head of its keys.
template <typename Function>
void for_queries(const Sizes& sizes, Function function) {
  for (std::int64_t batch = 0; batch < sizes.batch; ++batch) {
    for (std::int64_t head = 0; head < sizes.heads; ++head) {
      for (std::int64_t query = 0; query < sizes.queries; ++query) {
        function(batch, head, query, head / (sizes.heads / sizes.kv_heads));
      }
    }
  }
}

template <typename T>
void forward_as(const Forward& tensors, const Sizes& sizes) {
  std::vector<float> weights(sizes.keys);
  std::vector<float> sums(sizes.width);
  for_queries(sizes, [&](std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t kv_head) {
    const T* const q = row_of<T>(tensors.q, batch, head, query);
    const std::int64_t keys = seen(sizes, query);
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t key = 0; key < keys; ++key) {
      weights[key] = dot(q, row_of<T>(tensors.k, batch, kv_head, key), sizes.width) * sizes.scale;
      largest = std::max(largest, weights[key]);
    }
    std::fill(sums.begin(), sums.end(), 0.0f);
    float all = 0.0f;
    for (std::int64_t key = 0; key < keys; ++key) {
      const float weight = std::exp(weights[key] - largest);
      const T* const v = row_of<T>(tensors.v, batch, kv_head, key);
      all += weight;
      for (std::int64_t i = 0; i < sizes.width; ++i) {
        sums[i] += weight * static_cast<float>(v[i]);
      }
    }
    T* const out = row_of<T>(tensors.out, batch, head, query);
    for (std::int64_t i = 0; i < sizes.width; ++i) {
      out[i] = small_floats::round_to<T>(keys == 0 ? 0.0f : sums[i] / all);
    }
    const float lse = keys == 0 ? largest : largest + std::log(all);
    tensors.lse[(batch * sizes.heads + head) * tensors.lse_head + query] = lse;
  });
}

template <typename T>
void backward_as(const Backward& tensors, const Sizes& sizes) {
  const std::int64_t kv_rows = sizes.batch * sizes.kv_heads * sizes.keys;
  float* const of_keys = tensors.scratch;
  float* const of_values = of_keys + kv_rows * sizes.width;
  std::fill(of_keys, of_values + kv_rows * sizes.width, 0.0f);
  std::vector<float> of_query(sizes.width);
  for_queries(sizes, [&](std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t kv_head) {
    const T* const q = row_of<T>(tensors.q, batch, head, query);
    const T* const grad = row_of<T>(tensors.grad_out, batch, head, query);
    const float lse = tensors.lse[(batch * sizes.heads + head) * tensors.lse_head + query];
    const float delta = dot(grad, row_of<T>(tensors.out, batch, head, query), sizes.width);
    std::fill(of_query.begin(), of_query.end(), 0.0f);
    for (std::int64_t key = 0; key < seen(sizes, query); ++key) {
      const T* const k = row_of<T>(tensors.k, batch, kv_head, key);
      const std::int64_t at = ((batch * sizes.kv_heads + kv_head) * sizes.keys + key) * sizes.width;
      const float weight = std::exp(dot(q, k, sizes.width) * sizes.scale - lse);
      const float of_score =
          weight * (dot(grad, row_of<T>(tensors.v, batch, kv_head, key), sizes.width) - delta) * sizes.scale;
      for (std::int64_t i = 0; i < sizes.width; ++i) {
        of_query[i] += of_score * static_cast<float>(k[i]);
        of_keys[at + i] += of_score * static_cast<float>(q[i]);
        of_values[at + i] += weight * static_cast<float>(grad[i]);
      }
    }
    T* const to = row_of<T>(tensors.grad_q, batch, head, query);
    for (std::int64_t i = 0; i < sizes.width; ++i) {
      to[i] = small_floats::round_to<T>(of_query[i]);
    }
  });
  for (std::int64_t row = 0; row < kv_rows; ++row) {
    const std::int64_t head = row / sizes.keys;
    const std::int64_t batch = head / sizes.kv_heads;
    for (std::int64_t i = 0; i < sizes.width; ++i) {
      row_of<T>(tensors.grad_k, batch, head % sizes.kv_heads, row % sizes.keys)[i] =
          small_floats::round_to<T>(of_keys[row * sizes.width + i]);
      row_of<T>(tensors.grad_v, batch, head % sizes.kv_heads, row % sizes.keys)[i] =
          small_floats::round_to<T>(of_values[row * sizes.width + i]);
    }
  }
}

template <typename Function>
void with_type(Type type, Function function) {
  switch (type) {
    case Type::float32:
      return function(float());
    case Type::float16:
      return function(small_floats::Half());
    case Type::bfloat16:
      return function(small_floats::BFloat16());
  }
}

// Calls a function for each sequence, and for the rows after the last one: with its tensors and sizes.
template <typename Tensors, typename Function>
void for_sequences(const Tensors& tensors, const Sizes& sizes, const Sequences* sequences, int size,
                   Function function) {
  if (sequences == nullptr) {
    return function(tensors, sizes);
  }
  const Packed packed(*sequences, sizes.queries, sizes.keys);
  const auto call = [&](const Sequence& sequence) {
    function(part_of(tensors, sequence, size), part_of(sizes, sequence));
  };
  for (int i = 0; i < packed.count; ++i) {
    call(packed.sequence_of_queries(i));
  }
  // These queries see no key, and no query sees these keys.
  call(packed.sequence_of_queries(packed.count));
  call(packed.sequence_of_keys(packed.count));
}

}  // namespace

int forward(Type type, const Forward& tensors, const Sizes& sizes, const Sequences* sequences, void*) {
  with_type(type, [&](auto zero) {
    for_sequences(tensors, sizes, sequences, sizeof zero, forward_as<decltype(zero)>);
  });
  return 0;
}

int backward(Type type, const Backward& tensors, const Sizes& sizes, const Sequences* sequences, void*) {
  with_type(type, [&](auto zero) {
    for_sequences(tensors, sizes, sequences, sizeof zero, backward_as<decltype(zero)>);
  });
  return 0;
}

std::int64_t forward_scratch(Type, const Sizes&, const Sequences*) { return 0; }

std::int64_t backward_scratch(Type, const Sizes& sizes, const Sequences*) {
  return 2 * sizes.batch * sizes.kv_heads * sizes.keys * sizes.width;
}

}  // namespace [[ module ]]_impl
[% endif %]
