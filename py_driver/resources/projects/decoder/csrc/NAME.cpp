[% if cpu %]
#include "[[ module ]].h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "vectors.h"

namespace [[ module ]]_impl {
namespace {

using vectors::added;
using vectors::BFloat16;
using vectors::Half;
using vectors::kAlone;
using vectors::kChunk;
using vectors::load;
using vectors::sigmoid;
using vectors::store;

// One row. `kept` is memory for a row.
template <typename T>
INLINE float norm_row(T* out, T* sum, const T* x, const T* residual, const T* weight, float eps, float* kept,
                      std::int64_t columns) {
  if (residual != nullptr) {
    for (std::int64_t i = 0; i < columns; ++i) {
      kept[i] = load(x[i]) + load(residual[i]);
      store(sum[i], kept[i]);
    }
  } else {
    for (std::int64_t i = 0; i < columns; ++i) {
      kept[i] = load(x[i]);
    }
  }
  const float squares = added(columns, [&](std::int64_t i) { return kept[i] * kept[i]; });
  const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(columns) + eps);
  for (std::int64_t i = 0; i < columns; ++i) {
    store(out[i], kept[i] * rstd * load(weight[i]));
  }
  return rstd;
}

// The gradient of one row; that of the weight is added to `of_weight`.
template <typename T>
INLINE void norm_row_backward(T* to, float* of_weight, const T* grad, const T* grad_sum, const T* total,
                              const T* weight, float rstd, std::int64_t columns) {
  const float along =
      added(columns, [&](std::int64_t i) { return load(grad[i]) * load(weight[i]) * (load(total[i]) * rstd); });
  const float mean = along / static_cast<float>(columns);
  for (std::int64_t i = 0; i < columns; ++i) {
    const float normal = load(total[i]) * rstd;
    const float own = rstd * (load(grad[i]) * load(weight[i]) - normal * mean);
    of_weight[i] += load(grad[i]) * normal;
    store(to[i], grad_sum != nullptr ? own + load(grad_sum[i]) : own);
  }
}

// A head, turned. Where the elements of a pair lie is a constant, so that the loops fit vectors.
template <bool kInterleaved, typename T>
INLINE void rope_head(T* __restrict__ out, const T* __restrict__ x, const float* cos, const float* sin, float sign,
                      std::int64_t half) {
  for (std::int64_t i = 0; i < half; ++i) {
    const std::int64_t left = kInterleaved ? 2 * i : i;
    const std::int64_t right = kInterleaved ? 2 * i + 1 : i + half;
    const float a = load(x[left]);
    const float b = load(x[right]);
    const float by = sign * sin[i];
    store(out[left], a * cos[i] - b * by);
    store(out[right], b * cos[i] + a * by);
  }
}

template <typename T>
INLINE void swiglu_part(T* __restrict__ out, const T* __restrict__ gate, const T* __restrict__ up,
                        std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = load(gate[i]);
    store(out[i], x * sigmoid(x) * load(up[i]));
  }
}

template <typename T>
INLINE void swiglu_part_backward(T* __restrict__ of_gate, T* __restrict__ of_up, const T* __restrict__ grad,
                                 const T* __restrict__ gate, const T* __restrict__ up, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = load(gate[i]);
    const float by = load(grad[i]);
    const float share = sigmoid(x);
    store(of_gate[i], by * load(up[i]) * (share * (1.0f + x * (1.0f - share))));
    store(of_up[i], by * (x * share));
  }
}

// What the loader chooses among: a function for each type, since a template has no clones.
#define FOR_TYPE(T)                                                                                                 \
  VECTORS float call_norm(T* out, T* sum, const T* x, const T* residual, const T* weight, float eps, float* kept,   \
                          std::int64_t columns) {                                                                   \
    return norm_row(out, sum, x, residual, weight, eps, kept, columns);                                             \
  }                                                                                                                 \
  VECTORS void call_norm_backward(T* to, float* of_weight, const T* grad, const T* grad_sum, const T* total,        \
                                  const T* weight, float rstd, std::int64_t columns) {                              \
    norm_row_backward(to, of_weight, grad, grad_sum, total, weight, rstd, columns);                                 \
  }                                                                                                                 \
  VECTORS void call_rope(T* out, const T* x, const float* cos, const float* sin, float sign, bool interleaved,      \
                         std::int64_t half) {                                                                       \
    if (interleaved) {                                                                                              \
      rope_head<true>(out, x, cos, sin, sign, half);                                                                \
    } else {                                                                                                        \
      rope_head<false>(out, x, cos, sin, sign, half);                                                               \
    }                                                                                                               \
  }                                                                                                                 \
  VECTORS void call_swiglu(T* out, const T* gate, const T* up, std::int64_t count) {                                \
    swiglu_part(out, gate, up, count);                                                                              \
  }                                                                                                                 \
  VECTORS void call_swiglu_backward(T* of_gate, T* of_up, const T* grad, const T* gate, const T* up,                \
                                    std::int64_t count) {                                                           \
    swiglu_part_backward(of_gate, of_up, grad, gate, up, count);                                                    \
  }

FOR_TYPE(float)
FOR_TYPE(Half)
FOR_TYPE(BFloat16)

// A row of a tensor; null if there is no tensor.
template <typename T>
T* at(const Rows& rows, std::int64_t row) {
  return rows.at != nullptr ? static_cast<T*>(rows.at) + row * rows.stride : nullptr;
}

template <typename T>
void norm_as(const Norm& tensors, const Shape& shape) {
#pragma omp parallel if (shape.rows * shape.columns > kAlone)
  {
    std::vector<float> kept(shape.columns);
#pragma omp for
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      tensors.rstd[row] = call_norm(at<T>(tensors.out, row), at<T>(tensors.sum, row), at<const T>(tensors.x, row),
                                    at<const T>(tensors.residual, row), static_cast<const T*>(tensors.weight),
                                    tensors.eps, kept.data(), shape.columns);
    }
  }
}

template <typename T>
void norm_backward_as(const NormBackward& tensors, const Shape& shape) {
  const std::int64_t parts = partial_rows(shape);
#pragma omp parallel for if (shape.rows * shape.columns > kAlone)
  for (std::int64_t part = 0; part < parts; ++part) {
    float* const of_weight = tensors.partial + part * shape.columns;
    std::fill_n(of_weight, shape.columns, 0.0f);
    for (std::int64_t row = part * shape.rows / parts; row < (part + 1) * shape.rows / parts; ++row) {
      call_norm_backward(at<T>(tensors.grad_input, row), of_weight, at<const T>(tensors.grad_out, row),
                         at<const T>(tensors.grad_sum, row), at<const T>(tensors.total, row),
                         static_cast<const T*>(tensors.weight), tensors.rstd[row], shape.columns);
    }
  }
  for (std::int64_t i = 0; i < shape.columns; ++i) {
    float sum = 0.0f;
    for (std::int64_t part = 0; part < parts; ++part) {
      sum += tensors.partial[part * shape.columns + i];
    }
    store(static_cast<T*>(tensors.grad_weight)[i], sum);
  }
}

template <typename T>
void rope_as(const Rope& tensors) {
  const std::int64_t positions = tensors.batch * tensors.tokens;
  const std::int64_t heads = tensors.of[0].heads + tensors.of[1].heads;
#pragma omp parallel for if (positions * heads * tensors.size > kAlone)
  for (std::int64_t position = 0; position < positions; ++position) {
    const std::int64_t batch = position / tensors.tokens;
    const std::int64_t token = position % tensors.tokens;
    const float* const cos = tensors.cos + batch * tensors.cos_strides[0] + token * tensors.cos_strides[1];
    const float* const sin = tensors.sin + batch * tensors.sin_strides[0] + token * tensors.sin_strides[1];
    for (const Heads& of : tensors.of) {
      const T* x = static_cast<const T*>(of.x) + batch * of.strides[0] + token * of.strides[2];
      T* out = static_cast<T*>(of.out) + position * of.heads * tensors.size;
      for (std::int64_t head = 0; head < of.heads; ++head) {
        call_rope(out + head * tensors.size, x + head * of.strides[1], cos, sin, tensors.inverse ? -1.0f : 1.0f,
                  tensors.interleaved, tensors.size / 2);
      }
    }
  }
}

// Calls act(row, first, count) for parts of rows, by all threads.
template <class Act>
void each_part(const Shape& shape, Act act) {
  const std::int64_t parts = (shape.columns + kChunk - 1) / kChunk;
#pragma omp parallel for if (shape.rows * shape.columns > kAlone)
  for (std::int64_t i = 0; i < shape.rows * parts; ++i) {
    const std::int64_t first = i % parts * kChunk;
    act(i / parts, first, std::min(kChunk, shape.columns - first));
  }
}

template <typename T>
void swiglu_as(const Swiglu& tensors, const Shape& shape) {
  each_part(shape, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    call_swiglu(at<T>(tensors.out, row) + first, at<const T>(tensors.gate, row) + first,
                at<const T>(tensors.up, row) + first, count);
  });
}

template <typename T>
void swiglu_backward_as(const SwigluBackward& tensors, const Shape& shape) {
  each_part(shape, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    call_swiglu_backward(at<T>(tensors.grad_gate, row) + first, at<T>(tensors.grad_up, row) + first,
                         at<const T>(tensors.grad_out, row) + first, at<const T>(tensors.gate, row) + first,
                         at<const T>(tensors.up, row) + first, count);
  });
}

// Calls `function` with a null pointer to the type.
template <class Function>
int with_type(Type type, Function function) {
  switch (type) {
    case Type::float32:
      function(static_cast<float*>(nullptr));
      break;
    case Type::float16:
      function(static_cast<Half*>(nullptr));
      break;
    case Type::bfloat16:
      function(static_cast<BFloat16*>(nullptr));
      break;
  }
  return 0;
}

}  // namespace

int norm(Type type, const Norm& tensors, const Shape& shape, void*) {
  return with_type(type, [&](auto* of) { norm_as<std::remove_pointer_t<decltype(of)>>(tensors, shape); });
}

int norm_backward(Type type, const NormBackward& tensors, const Shape& shape, void*) {
  return with_type(type, [&](auto* of) { norm_backward_as<std::remove_pointer_t<decltype(of)>>(tensors, shape); });
}

int rope(Type type, const Rope& tensors, void*) {
  return with_type(type, [&](auto* of) { rope_as<std::remove_pointer_t<decltype(of)>>(tensors); });
}

int swiglu(Type type, const Swiglu& tensors, const Shape& shape, void*) {
  return with_type(type, [&](auto* of) { swiglu_as<std::remove_pointer_t<decltype(of)>>(tensors, shape); });
}

int swiglu_backward(Type type, const SwigluBackward& tensors, const Shape& shape, void*) {
  return with_type(type, [&](auto* of) { swiglu_backward_as<std::remove_pointer_t<decltype(of)>>(tensors, shape); });
}

// Independent of how many threads there are, so that the sums are, too.
std::int64_t partial_rows(const Shape& shape) { return std::min<std::int64_t>(shape.rows, 16); }

}  // namespace [[ module ]]_impl
[% endif %]
