[% if cpu %]
#include "[[ module ]].h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "vectors.h"

namespace [[ module ]]_impl {
namespace {

using vectors::added;
using vectors::kChunk;
using vectors::narrow;
using vectors::room;
using vectors::widened;

struct Statistics {
  float mean;
  float rstd;
};

// Of these loops, each may write where it reads.
VECTORS void add(float* to, const float* left, const float* right, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = left[i] + right[i];
  }
}

VECTORS Statistics statistics_of(const float* row, float eps, std::int64_t columns) {
  const auto count = static_cast<float>(columns);
  const float mean = added(columns, [&](std::int64_t i) { return row[i]; }) / count;
  const float squares = added(columns, [&](std::int64_t i) { return (row[i] - mean) * (row[i] - mean); });
  return {mean, 1.0f / std::sqrt(squares / count + eps)};
}

VECTORS void norm(float* to, const float* from, const float* weight, const float* bias, Statistics of,
                  std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = (from[i] - of.mean) * of.rstd * weight[i] + bias[i];
  }
}

// Writes the gradient of a row of the input, and adds to those of weight and bias.
VECTORS void norm_backward(float* to, float* of_weight, float* of_bias, const float* grad, const float* sum,
                           const float* weight, Statistics of, std::int64_t columns) {
  const auto normal = [&](std::int64_t i) { return (sum[i] - of.mean) * of.rstd; };
  const auto count = static_cast<float>(columns);
  const float all = added(columns, [&](std::int64_t i) { return grad[i] * weight[i]; }) / count;
  const float along = added(columns, [&](std::int64_t i) { return grad[i] * weight[i] * normal(i); }) / count;
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    const float own = of.rstd * (grad[i] * weight[i] - all - normal(i) * along);
    of_weight[i] += grad[i] * normal(i);
    of_bias[i] += grad[i];
    to[i] = own;
  }
}

template <typename T>
void forward_as(const Forward& tensors, const Shape& shape) {
  const std::int64_t columns = shape.columns;
#pragma omp parallel if (shape.rows * columns > vectors::kAlone)
  {
    std::vector<float> memory(3 * columns + 2 * kChunk);
    float* const parts = memory.data() + 3 * columns;
    const float* const weight = widened(memory.data(), static_cast<const T*>(tensors.weight), columns);
    const float* const bias = widened(memory.data() + columns, static_cast<const T*>(tensors.bias), columns);
#pragma omp for
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const std::int64_t begin = row * columns;
      T* const rounded = static_cast<T*>(tensors.sum) + begin;
      float* const sum = room(memory.data() + 2 * columns, rounded);
      for (std::int64_t i = 0; i < columns; i += kChunk) {
        const std::int64_t count = std::min(kChunk, columns - i);
        const float* const x = widened(parts, static_cast<const T*>(tensors.x) + begin + i, count);
        add(sum + i, x, widened(parts + kChunk, static_cast<const T*>(tensors.residual) + begin + i, count), count);
        narrow(rounded + i, sum + i, count);
      }
      const Statistics of = statistics_of(sum, tensors.eps, columns);
      for (std::int64_t i = 0; i < columns; i += kChunk) {
        const std::int64_t count = std::min(kChunk, columns - i);
        T* const out = static_cast<T*>(tensors.out) + begin + i;
        float* const values = room(parts, out);
        norm(values, sum + i, weight + i, bias + i, of, count);
        narrow(out, values, count);
      }
      tensors.mean[row] = of.mean;
      tensors.rstd[row] = of.rstd;
    }
  }
}

// Independent of how many threads there are, so that the sums are, too.
std::int64_t parts_of(const Shape& shape) { return std::min<std::int64_t>(shape.rows, 16); }

template <typename T>
void backward_as(const Backward& tensors, const Shape& shape) {
  const std::int64_t columns = shape.columns;
  const std::int64_t parts = parts_of(shape);
#pragma omp parallel if (shape.rows * columns > vectors::kAlone)
  {
    std::vector<float> memory(4 * columns);
    const float* const weight = widened(memory.data(), static_cast<const T*>(tensors.weight), columns);
#pragma omp for
    for (std::int64_t part = 0; part < parts; ++part) {
      float* const of_weight = tensors.partial + 2 * part * columns;
      std::fill_n(of_weight, 2 * columns, 0.0f);
      for (std::int64_t row = part * shape.rows / parts; row < (part + 1) * shape.rows / parts; ++row) {
        const std::int64_t begin = row * columns;
        float* const rows = memory.data() + columns;
        const float* const grad = widened(rows, static_cast<const T*>(tensors.grad_out) + begin, columns);
        const float* const sum = widened(rows + columns, static_cast<const T*>(tensors.sum) + begin, columns);
        T* const to = static_cast<T*>(tensors.grad_input) + begin;
        float* const own = room(rows + 2 * columns, to);
        norm_backward(own, of_weight, of_weight + columns, grad, sum, weight, {tensors.mean[row], tensors.rstd[row]},
                      columns);
        add(own, own, widened(rows, static_cast<const T*>(tensors.grad_sum) + begin, columns), columns);
        narrow(to, own, columns);
      }
    }
  }
  for (std::int64_t part = 1; part < parts; ++part) {
    add(tensors.partial, tensors.partial, tensors.partial + 2 * part * columns, 2 * columns);
  }
  vectors::store_each(static_cast<T*>(tensors.grad_weight), tensors.partial, columns);
  vectors::store_each(static_cast<T*>(tensors.grad_bias), tensors.partial + columns, columns);
}

}  // namespace

int forward(Type type, const Forward& tensors, const Shape& shape, void*) {
  switch (type) {
    case Type::float32:
      forward_as<float>(tensors, shape);
      break;
    case Type::float16:
      forward_as<vectors::Half>(tensors, shape);
      break;
    case Type::bfloat16:
      forward_as<vectors::BFloat16>(tensors, shape);
      break;
  }
  return 0;
}

int backward(Type type, const Backward& tensors, const Shape& shape, void*) {
  switch (type) {
    case Type::float32:
      backward_as<float>(tensors, shape);
      break;
    case Type::float16:
      backward_as<vectors::Half>(tensors, shape);
      break;
    case Type::bfloat16:
      backward_as<vectors::BFloat16>(tensors, shape);
      break;
  }
  return 0;
}

std::int64_t partial_rows(Type, const Shape& shape) { return parts_of(shape); }

}  // namespace [[ module ]]_impl
[% endif %]
