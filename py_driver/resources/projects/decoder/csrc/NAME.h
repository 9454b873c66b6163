// What the binding calls. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

enum class Type { float32, float16, bfloat16 };

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};

// Rows of elements side by side; each begins `stride` elements after the one before. Outputs overlap no input.
struct Rows {
  void* at;
  std::int64_t stride;
};

// out = total / sqrt(mean(total^2) + eps) * weight, where total = x + residual, or x without a residual.
struct Norm {
  Rows out;
  Rows sum;     // the rounded total; null without a residual
  float* rstd;  // 1 / sqrt(mean(total^2) + eps) of each row
  Rows x;
  Rows residual;       // null if there is none
  const void* weight;  // one for each column
  float eps;
};

struct NormBackward {
  Rows grad_input;
  void* grad_weight;  // one for each column
  float* partial;     // working memory: partial_rows() rows
  Rows grad_out;
  Rows grad_sum;  // null if the sum has no gradient
  Rows total;
  const float* rstd;
  const void* weight;
};

// Queries or keys: (batch, heads, tokens, size). Strides count elements; that of the last dimension is 1.
struct Heads {
  void* out;  // lies as (batch, tokens, heads, size), dense
  const void* x;
  std::int64_t heads;
  std::int64_t strides[3];
};

// A pair (a, b) of a head becomes (a cos - b sin, b cos + a sin).
struct Rope {
  Heads of[2];  // queries and keys
  const float* cos;  // (batch, tokens, size / 2): an angle for each pair
  const float* sin;
  std::int64_t cos_strides[2];  // of batch and tokens; 0 where all have the same angles
  std::int64_t sin_strides[2];
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t size;  // even
  bool interleaved;   // a pair is elements 2 i and 2 i + 1, else i and i + size / 2
  bool inverse;       // turned by the negative angle
};

// out = gate / (1 + exp(-gate)) * up.
struct Swiglu {
  Rows out;
  Rows gate;
  Rows up;
};

struct SwigluBackward {
  Rows grad_gate;
  Rows grad_up;
  Rows grad_out;
  Rows gate;
  Rows up;
};

// `stream` is a cudaStream_t, and null on the CPU. Each returns a cudaError_t: 0 is success.
int norm(Type type, const Norm& tensors, const Shape& shape, void* stream);
int norm_backward(Type type, const NormBackward& tensors, const Shape& shape, void* stream);
int rope(Type type, const Rope& tensors, void* stream);
int swiglu(Type type, const Swiglu& tensors, const Shape& shape, void* stream);
int swiglu_backward(Type type, const SwigluBackward& tensors, const Shape& shape, void* stream);

// How many parts the gradient of the weight is added up in.
std::int64_t partial_rows(const Shape& shape);

}  // namespace [[ module ]]_impl
