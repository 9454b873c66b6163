[% if cpu %]
// On a CPU torch multiplies matrices of float32: a part of the queries of a head at a time, with all keys.
#include "[[ module ]].h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sequences.h"
#include "vectors.h"

namespace [[ module ]]_impl {
namespace {

constexpr std::int64_t kScores = 1 << 17;  // scores at a time, and at least those of kLeast queries
constexpr std::int64_t kLeast = 16;

at::ScalarType torch_type(Type type) {
  return type == Type::float32 ? at::kFloat : type == Type::bfloat16 ? at::kBFloat16 : at::kHalf;
}

// Rows of a head as a matrix.
struct Head {
  at::ScalarType type;
  std::int64_t width;
  std::int64_t batch;
  std::int64_t head;

  at::Tensor rows(const View& view, std::int64_t first, std::int64_t count) const {
    const std::int64_t place = batch * view.batch + head * view.head + first * view.row;
    auto* const begin = static_cast<char*>(view.at) + place * static_cast<std::int64_t>(c10::elementSize(type));
    return at::from_blob(begin, {count, width}, {view.row, 1}, at::TensorOptions(type));
  }

  at::Tensor wide_rows(const View& view, std::int64_t first, std::int64_t count) const {
    return rows(view, first, count).to(at::kFloat);
  }

  // The product of two matrices of float32, rounded to the type.
  void multiply(const View& view, std::int64_t first, const at::Tensor& left, const at::Tensor& right) const {
    at::Tensor out = rows(view, first, left.size(0));
    at::Tensor sums = type == at::kFloat ? out : at::empty({left.size(0), width}, at::kFloat);
    at::mm_out(sums, left, right);
    if (type != at::kFloat) {
      out.copy_(sums);
    }
  }
};

at::Tensor product_of(const at::Tensor& left, const at::Tensor& right, float scale = 1.0f) {
  at::Tensor out = at::empty({left.size(0), right.size(1)}, at::kFloat);
  return at::addmm_out(out, out, left, right, 0.0f, scale);
}

// How many queries have their scores at the same time.
std::int64_t queries_at_a_time(const Sizes& sizes) {
  const std::int64_t fitting = kScores / std::max<std::int64_t>(sizes.keys, 1);
  return std::clamp(fitting, kLeast, std::max(sizes.queries, kLeast));
}

// How many keys a query sees.
std::int64_t seen(const Sizes& sizes, std::int64_t query) {
  return sizes.causal ? std::clamp<std::int64_t>(query + 1 + sizes.keys - sizes.queries, 0, sizes.keys) : sizes.keys;
}

// Makes weights of the scores of a query, in their place: exp(score - lse). Returns lse. Scores are scaled before: a
// product here could be rounded in one place and not in the other.
VECTORS float weights_of(float* scores, std::int64_t count) {
  const float largest = vectors::combined(
      0, count, -std::numeric_limits<float>::infinity(), [&](std::int64_t i) { return scores[i]; },
      [](float left, float right) { return right > left ? right : left; });
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = vectors::exp_of_negative(scores[i] - largest);
  }
  const float sum = vectors::added(count, [&](std::int64_t i) { return scores[i]; });
  const float factor = 1.0f / sum;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] *= factor;
  }
  return largest + std::log(sum);
}

// The same weights once lse is known, and in the place of the gradients of weights those of scores.
VECTORS void backward_of(float* scores, float* grads, float scale, float lse, float delta, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float power = scores[i] - lse;  // above 0 by rounding alone; NaN stays
    scores[i] = vectors::exp_of_negative(power > 0.0f ? 0.0f : power);
    grads[i] = scores[i] * (grads[i] - delta) * scale;
  }
}

VECTORS float dot(const float* left, const float* right, std::int64_t count) {
  return vectors::added(count, [&](std::int64_t i) { return left[i] * right[i]; });
}

// The head of k and v that goes with one of q.
Head kv_head_of(const Head& head, const Sizes& sizes) {
  return {head.type, head.width, head.batch, head.head / (sizes.heads / sizes.kv_heads)};
}

// The outputs for `count` queries of a head from `first` on.
void forward_part(const Forward& tensors, const Sizes& sizes, const Head& head, std::int64_t first,
                  std::int64_t count) {
  const Head kv_head = kv_head_of(head, sizes);
  const std::int64_t keys = seen(sizes, first + count - 1);
  const at::Tensor q = head.wide_rows(tensors.q, first, count);
  const at::Tensor weights = product_of(q, kv_head.wide_rows(tensors.k, 0, keys).t(), sizes.scale);
  float* const lse = tensors.lse + (head.batch * sizes.heads + head.head) * tensors.lse_head + first;
  for (std::int64_t row = 0; row < count; ++row) {
    float* const own = weights.data_ptr<float>() + row * keys;
    const std::int64_t visible = seen(sizes, first + row);
    lse[row] = weights_of(own, visible);
    std::fill(own + visible, own + keys, 0.0f);
  }
  head.multiply(tensors.out, first, weights, kv_head.wide_rows(tensors.v, 0, keys));
}

const float* row_of(const at::Tensor& matrix, std::int64_t row) {
  return matrix.const_data_ptr<float>() + row * matrix.stride(0);
}

// The gradients of these queries. Adds to those of k and v.
void backward_part(const Backward& tensors, const Sizes& sizes, const Head& head, std::int64_t first,
                   std::int64_t count, const at::Tensor& of_k, const at::Tensor& of_v) {
  const Head kv_head = kv_head_of(head, sizes);
  const std::int64_t keys = seen(sizes, first + count - 1);
  const at::Tensor k = kv_head.wide_rows(tensors.k, 0, keys);
  const at::Tensor v = kv_head.wide_rows(tensors.v, 0, keys);
  const at::Tensor q = head.wide_rows(tensors.q, first, count);
  const at::Tensor grad = head.wide_rows(tensors.grad_out, first, count);
  const at::Tensor out = head.wide_rows(tensors.out, first, count);
  const at::Tensor scores = product_of(q, k.t(), sizes.scale);
  const at::Tensor grads = product_of(grad, v.t());
  const float* const lse = tensors.lse + (head.batch * sizes.heads + head.head) * tensors.lse_head + first;
  for (std::int64_t row = 0; row < count; ++row) {
    float* const own = scores.data_ptr<float>() + row * keys;
    float* const of_own = grads.data_ptr<float>() + row * keys;
    const std::int64_t visible = seen(sizes, first + row);
    const float delta = dot(row_of(grad, row), row_of(out, row), sizes.width);
    backward_of(own, of_own, sizes.scale, lse[row], delta, visible);
    std::fill(own + visible, own + keys, 0.0f);
    std::fill(of_own + visible, of_own + keys, 0.0f);
  }
  head.multiply(tensors.grad_q, first, grads, k);
  at::Tensor sums_k = of_k.narrow(0, 0, keys);
  at::Tensor sums_v = of_v.narrow(0, 0, keys);
  at::addmm_out(sums_k, sums_k, grads.t(), q);
  at::addmm_out(sums_v, sums_v, scores.t(), grad);
}

// Where the first row begins, and the way to the next.
template <typename T>
struct Rows {
  const T* first;
  std::int64_t next;

  const T* at(std::int64_t row) const { return first + row * next; }
};

// Asks for a row that will be read soon: a single query waits for memory most of the time.
template <typename T>
INLINE void prefetch(const T* row, std::int64_t width) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < width; i += kLine) {
    __builtin_prefetch(row + i);
  }
}

// Those of the four rows that lie some rows behind this one.
template <typename T>
INLINE void prefetch_four(const Rows<T>& rows, std::int64_t row, std::int64_t count, std::int64_t width) {
  constexpr std::int64_t kAhead = 16;
  for (std::int64_t ahead = row + kAhead; ahead < std::min(row + kAhead + 4, count); ++ahead) {
    prefetch(rows.at(ahead), width);
  }
}

template <typename T>
INLINE void dots_of(float* to, const float* q, const Rows<T>& rows, float scale, std::int64_t count,
                    std::int64_t width) {
  std::int64_t row = 0;
  for (; row + 4 <= count; row += 4) {
    prefetch_four(rows, row, count, width);
    const T* const a = rows.at(row);
    const T* const b = rows.at(row + 1);
    const T* const c = rows.at(row + 2);
    const T* const d = rows.at(row + 3);
    float of_a = 0.0f, of_b = 0.0f, of_c = 0.0f, of_d = 0.0f;
#pragma omp simd reduction(+ : of_a, of_b, of_c, of_d)
    for (std::int64_t i = 0; i < width; ++i) {
      of_a += q[i] * vectors::load(a[i]);
      of_b += q[i] * vectors::load(b[i]);
      of_c += q[i] * vectors::load(c[i]);
      of_d += q[i] * vectors::load(d[i]);
    }
    to[row] = of_a * scale;
    to[row + 1] = of_b * scale;
    to[row + 2] = of_c * scale;
    to[row + 3] = of_d * scale;
  }
  for (; row < count; ++row) {
    const T* const a = rows.at(row);
    float of_a = 0.0f;
#pragma omp simd reduction(+ : of_a)
    for (std::int64_t i = 0; i < width; ++i) {
      of_a += q[i] * vectors::load(a[i]);
    }
    to[row] = of_a * scale;
  }
}

template <typename T>
INLINE void add_rows_of(float* __restrict__ sums, const float* weights, const Rows<T>& rows, std::int64_t count,
                        std::int64_t width) {
  std::int64_t row = 0;
  for (; row + 4 <= count; row += 4) {
    prefetch_four(rows, row, count, width);
    const T* const a = rows.at(row);
    const T* const b = rows.at(row + 1);
    const T* const c = rows.at(row + 2);
    const T* const d = rows.at(row + 3);
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      sums[i] += (weights[row] * vectors::load(a[i]) + weights[row + 1] * vectors::load(b[i])) +
                 (weights[row + 2] * vectors::load(c[i]) + weights[row + 3] * vectors::load(d[i]));
    }
  }
  for (; row < count; ++row) {
    const T* const a = rows.at(row);
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      sums[i] += weights[row] * vectors::load(a[i]);
    }
  }
}

// The product of q with each of `count` rows, times `scale`.
VECTORS void dots(float* to, const float* q, Rows<float> rows, float scale, std::int64_t count, std::int64_t width) {
  dots_of(to, q, rows, scale, count, width);
}

VECTORS void dots(float* to, const float* q, Rows<vectors::BFloat16> rows, float scale, std::int64_t count,
                  std::int64_t width) {
  dots_of(to, q, rows, scale, count, width);
}

// Adds `count` rows, each times its weight.
VECTORS void add_rows(float* sums, const float* weights, Rows<float> rows, std::int64_t count, std::int64_t width) {
  add_rows_of(sums, weights, rows, count, width);
}

VECTORS void add_rows(float* sums, const float* weights, Rows<vectors::BFloat16> rows, std::int64_t count,
                      std::int64_t width) {
  add_rows_of(sums, weights, rows, count, width);
}

// Calls a function with some rows at a time as float32, and with the place of their first.
template <typename Function>
void widened_rows(Rows<vectors::Half> rows, std::int64_t count, std::int64_t width, Function function) {
  constexpr std::int64_t kSome = 4;
  float memory[kSome * kMostWidth];
  for (std::int64_t first = 0; first < count; first += kSome) {
    const std::int64_t some = std::min(kSome, count - first);
    prefetch_four(rows, first, count, width);
    for (std::int64_t row = 0; row < some; ++row) {
      vectors::widened(memory + row * width, rows.at(first + row), width);
    }
    function(first, Rows<float>{memory, width}, some);
  }
}

void dots(float* to, const float* q, Rows<vectors::Half> rows, float scale, std::int64_t count, std::int64_t width) {
  widened_rows(rows, count, width, [&](std::int64_t first, Rows<float> wide, std::int64_t some) {
    dots(to + first, q, wide, scale, some, width);
  });
}

void add_rows(float* sums, const float* weights, Rows<vectors::Half> rows, std::int64_t count, std::int64_t width) {
  widened_rows(rows, count, width, [&](std::int64_t first, Rows<float> wide, std::int64_t some) {
    add_rows(sums, weights + first, wide, some, width);
  });
}

// The output for the only query of a head. Products of matrices would take longer.
template <typename T>
void forward_query(const Forward& tensors, const Sizes& sizes, const Head& head) {
  const auto first_of = [](const View& view, const Head& of) {
    return static_cast<T*>(view.at) + of.batch * view.batch + of.head * view.head;
  };
  const Head kv_head = kv_head_of(head, sizes);
  const std::int64_t keys = seen(sizes, 0);
  float row[kMostWidth];
  std::vector<float> weights(keys);
  const float* const q = vectors::widened(row, first_of(tensors.q, head), sizes.width);
  dots(weights.data(), q, Rows<T>{first_of(tensors.k, kv_head), tensors.k.row}, sizes.scale, keys, sizes.width);
  tensors.lse[(head.batch * sizes.heads + head.head) * tensors.lse_head] = weights_of(weights.data(), keys);
  std::fill_n(row, sizes.width, 0.0f);
  add_rows(row, weights.data(), Rows<T>{first_of(tensors.v, kv_head), tensors.v.row}, keys, sizes.width);
  vectors::store_each(first_of(tensors.out, head), row, sizes.width);
}

void forward_queries(Type type, const Forward& tensors, const Sizes& sizes) {
  at::parallel_for(0, sizes.batch * sizes.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Head head = {torch_type(type), sizes.width, i / sizes.heads, i % sizes.heads};
      switch (type) {
        case Type::float32:
          forward_query<float>(tensors, sizes, head);
          break;
        case Type::float16:
          forward_query<vectors::Half>(tensors, sizes, head);
          break;
        case Type::bfloat16:
          forward_query<vectors::BFloat16>(tensors, sizes, head);
          break;
      }
    }
  });
}

void forward_all(Type type, const Forward& tensors, const Sizes& sizes) {
  if (sizes.queries == 0) {
    return;
  }
  if (sizes.queries == 1) {
    forward_queries(type, tensors, sizes);
    return;
  }
  const std::int64_t some = queries_at_a_time(sizes);
  const std::int64_t parts = (sizes.queries + some - 1) / some;
  at::parallel_for(0, sizes.batch * sizes.heads * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Head head = {torch_type(type), sizes.width, i / parts / sizes.heads, i / parts % sizes.heads};
      const std::int64_t first = i % parts * some;
      forward_part(tensors, sizes, head, first, std::min(some, sizes.queries - first));
    }
  });
}

void backward_all(Type type, const Backward& tensors, const Sizes& sizes) {
  const std::int64_t some = queries_at_a_time(sizes);
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  at::parallel_for(0, sizes.batch * sizes.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Head kv_head = {torch_type(type), sizes.width, i / sizes.kv_heads, i % sizes.kv_heads};
      const at::Tensor of_k = at::zeros({sizes.keys, sizes.width}, at::kFloat);
      const at::Tensor of_v = at::zeros({sizes.keys, sizes.width}, at::kFloat);
      for (std::int64_t j = 0; j < group; ++j) {
        const Head head = {kv_head.type, kv_head.width, kv_head.batch, kv_head.head * group + j};
        for (std::int64_t first = 0; first < sizes.queries; first += some) {
          backward_part(tensors, sizes, head, first, std::min(some, sizes.queries - first), of_k, of_v);
        }
      }
      kv_head.rows(tensors.grad_k, 0, sizes.keys).copy_(of_k);
      kv_head.rows(tensors.grad_v, 0, sizes.keys).copy_(of_v);
    }
  });
}

// Calls a function for each sequence, and for the rows after the last one: with the type, its tensors and its sizes.
template <typename Tensors, typename Function>
void for_sequences(Type type, const Tensors& tensors, const Sizes& sizes, const Sequences* sequences,
                   Function function) {
  if (sequences == nullptr) {
    return function(type, tensors, sizes);
  }
  const Packed packed(*sequences, sizes.queries, sizes.keys);
  const int bytes = static_cast<int>(c10::elementSize(torch_type(type)));
  const auto call = [&](const Sequence& sequence) {
    function(type, part_of(tensors, sequence, bytes), part_of(sizes, sequence));
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
  for_sequences(type, tensors, sizes, sequences, forward_all);
  return 0;
}

int backward(Type type, const Backward& tensors, const Sizes& sizes, const Sequences* sequences, void*) {
  for_sequences(type, tensors, sizes, sequences, backward_all);
  return 0;
}

std::int64_t forward_scratch(Type, const Sizes&, const Sequences*) { return 0; }

std::int64_t backward_scratch(Type, const Sizes&, const Sequences*) { return 0; }

}  // namespace [[ module ]]_impl
[% endif %]
