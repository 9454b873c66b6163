// What the binding calls. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

enum class Type { float32, float16, bfloat16 };

// Matrices are dense, row by row, with elements of one type. `weight` and `bias` have one of that type for each column.
struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};

struct Forward {
  void* out;
  void* sum;    // x + residual, rounded; what follows is made from the exact sum
  float* mean;  // of each row
  float* rstd;  // 1 / sqrt(variance + eps) of each row
  const void* x;
  const void* residual;
  const void* weight;
  const void* bias;
  float eps;
};

struct Backward {
  void* grad_input;  // of x and of residual
  void* grad_weight;
  void* grad_bias;
  float* partial;  // working memory: 2 * partial_rows() rows
  const void* grad_out;
  const void* grad_sum;
  const void* sum;
  const float* mean;
  const float* rstd;
  const void* weight;
};

// out = (x + residual - mean) * rstd * weight + bias.
//
// `stream` is a cudaStream_t, and null on the CPU. Returns a cudaError_t: 0 is success.
int forward(Type type, const Forward& tensors, const Shape& shape, void* stream);

int backward(Type type, const Backward& tensors, const Shape& shape, void* stream);

// How many parts the gradients of weight and bias are added up in.
std::int64_t partial_rows(Type type, const Shape& shape);

}  // namespace [[ module ]]_impl
