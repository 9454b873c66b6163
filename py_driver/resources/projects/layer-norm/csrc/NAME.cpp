[% if cpu %]
#include "[[ module ]].h"

#include <algorithm>
#include <cmath>

#include "small_floats.h"

namespace [[ module ]]_impl {
namespace {

template <typename T>
void forward_as(const Forward& tensors, const Shape& shape) {
  const auto* weight = static_cast<const T*>(tensors.weight);
  const auto* bias = static_cast<const T*>(tensors.bias);
  const auto count = static_cast<double>(shape.columns);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto* x = static_cast<const T*>(tensors.x) + row * shape.columns;
    const auto* residual = static_cast<const T*>(tensors.residual) + row * shape.columns;
    auto* out = static_cast<T*>(tensors.out) + row * shape.columns;
    auto* sum = static_cast<T*>(tensors.sum) + row * shape.columns;
    const auto at = [&](std::int64_t i) { return static_cast<float>(x[i]) + static_cast<float>(residual[i]); };
    double all = 0.0;
    for (std::int64_t i = 0; i < shape.columns; ++i) {
      all += at(i);
      sum[i] = small_floats::round_to<T>(at(i));
    }
    const double mean = all / count;
    double squares = 0.0;
    for (std::int64_t i = 0; i < shape.columns; ++i) {
      squares += (at(i) - mean) * (at(i) - mean);
    }
    const double rstd = 1.0 / std::sqrt(squares / count + tensors.eps);
    for (std::int64_t i = 0; i < shape.columns; ++i) {
      const double normal = (at(i) - mean) * rstd;
      out[i] = small_floats::round_to<T>(
          static_cast<float>(normal * static_cast<float>(weight[i]) + static_cast<float>(bias[i])));
    }
    tensors.mean[row] = static_cast<float>(mean);
    tensors.rstd[row] = static_cast<float>(rstd);
  }
}

template <typename T>
void backward_as(const Backward& tensors, const Shape& shape) {
  const auto* weight = static_cast<const T*>(tensors.weight);
  float* const of_weight = tensors.partial;
  float* const of_bias = tensors.partial + shape.columns;
  std::fill(of_weight, of_bias + shape.columns, 0.0f);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto* grad = static_cast<const T*>(tensors.grad_out) + row * shape.columns;
    const auto* grad_sum = static_cast<const T*>(tensors.grad_sum) + row * shape.columns;
    const auto* sum = static_cast<const T*>(tensors.sum) + row * shape.columns;
    auto* to = static_cast<T*>(tensors.grad_input) + row * shape.columns;
    const float mean = tensors.mean[row];
    const float rstd = tensors.rstd[row];
    const auto normal = [&](std::int64_t i) { return (static_cast<float>(sum[i]) - mean) * rstd; };
    const auto scaled = [&](std::int64_t i) { return static_cast<float>(grad[i]) * static_cast<float>(weight[i]); };
    double along = 0.0;
    double all = 0.0;
    for (std::int64_t i = 0; i < shape.columns; ++i) {
      all += scaled(i);
      along += scaled(i) * normal(i);
      of_weight[i] += static_cast<float>(grad[i]) * normal(i);
      of_bias[i] += static_cast<float>(grad[i]);
    }
    const auto count = static_cast<double>(shape.columns);
    for (std::int64_t i = 0; i < shape.columns; ++i) {
      const double own = rstd * (scaled(i) - all / count - normal(i) * along / count);
      to[i] = small_floats::round_to<T>(static_cast<float>(own + static_cast<float>(grad_sum[i])));
    }
  }
  for (std::int64_t i = 0; i < shape.columns; ++i) {
    static_cast<T*>(tensors.grad_weight)[i] = small_floats::round_to<T>(of_weight[i]);
    static_cast<T*>(tensors.grad_bias)[i] = small_floats::round_to<T>(of_bias[i]);
  }
}

}  // namespace

int forward(Type type, const Forward& tensors, const Shape& shape, void*) {
  switch (type) {
    case Type::float32:
      forward_as<float>(tensors, shape);
      break;
    case Type::float16:
      forward_as<small_floats::Half>(tensors, shape);
      break;
    case Type::bfloat16:
      forward_as<small_floats::BFloat16>(tensors, shape);
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
      backward_as<small_floats::Half>(tensors, shape);
      break;
    case Type::bfloat16:
      backward_as<small_floats::BFloat16>(tensors, shape);
      break;
  }
  return 0;
}

std::int64_t partial_rows(Type, const Shape&) { return 1; }

}  // namespace [[ module ]]_impl
[% endif %]
