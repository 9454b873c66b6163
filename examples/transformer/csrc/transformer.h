// The kernels of a decoder. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace transformer_impl {

enum class Type { float32, float16, bfloat16 };

// Rows that lie one after the other, with elements of one type. Any pointer but those that say so is to such a matrix.
struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};

// out = total / sqrt(mean(total^2) + eps) * weight, where total = x + residual, or x without a residual.
struct Norm {
  void* out;
  void* sum;    // the rounded total; null without a residual
  float* rstd;  // 1 / sqrt(mean(total^2) + eps) of each row
  const void* x;
  const void* residual;  // null if there is none
  const void* weight;    // one for each column
  float eps;
};

struct NormBackward {
  void* grad_input;
  void* grad_weight;       // one for each column
  float* partial;          // working memory: partial_rows() rows
  const void* grad_out;
  const void* grad_sum;    // null if the sum has no gradient
  const void* total;
  const float* rstd;
  const void* weight;
};

// Heads of queries and keys that are turned. A tensor has the sizes (batch, heads, tokens, head size), and lies in
// memory as its strides say; the last dimension has the stride 1. Strides count elements.
struct Heads {
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t tokens;
  std::int64_t size;  // even
  std::int64_t in_strides[3];
};

struct Rope {
  void* out;  // (batch, tokens, heads, size), dense
  const void* x;
  const void* cos;  // (batch or 1, tokens, size), dense; `batched` says which
  const void* sin;
  bool batched;
  bool inverse;  // the gradient: turned by the transposed matrix
};

struct Swiglu {
  void* out;
  const void* gate;
  const void* up;
};

struct SwigluBackward {
  void* grad_gate;
  void* grad_up;
  const void* grad_out;
  const void* gate;
  const void* up;
};

// `stream` is a cudaStream_t, and null on the CPU. Each returns a cudaError_t: 0 is success.
int norm(Type type, const Norm& tensors, const Shape& shape, void* stream);
int norm_backward(Type type, const NormBackward& tensors, const Shape& shape, void* stream);
int rope(Type type, const Rope& tensors, const Heads& heads, void* stream);
// out = gate / (1 + exp(-gate)) * up, for `count` elements.
int swiglu(Type type, const Swiglu& tensors, std::int64_t count, void* stream);
int swiglu_backward(Type type, const SwigluBackward& tensors, std::int64_t count, void* stream);

// How many parts the gradient of the weight is added up in.
std::int64_t partial_rows(const Shape& shape);

}  // namespace transformer_impl
