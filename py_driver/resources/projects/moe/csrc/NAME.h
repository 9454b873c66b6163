// What the binding calls. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

enum class Type { float32, float16, bfloat16 };

constexpr std::int64_t kMostExperts = 1024;

// A token goes to `k` experts. Each of these pairs is a row of what experts compute: first all rows of expert 0, in the
// order of the tokens, then those of expert 1.
struct Route {
  float* weights;          // [tokens, k]: of the largest logits first, of equal ones the first expert
  std::int32_t* experts;   // [tokens, k]
  std::int32_t* offsets;   // [count + 1]: where the rows of each expert begin
  std::int32_t* sources;   // [tokens * k]: the token of each row
  std::int32_t* places;    // [tokens, k]: the row of each pair
  std::int32_t* working;   // memory for working_size() of them
  const void* logits;      // [tokens, count], dense
  std::int64_t tokens;
  std::int64_t count;  // of experts
  std::int64_t k;
  bool normalize;  // whether the weights of a token add up to 1; else they are the softmax of all logits
};

// out[row] = x[source of the row] @ weights[expert of the row].
struct Product {
  void* out;  // [rows, columns], dense
  const void* x;
  const void* weights;          // [experts, depth, columns], or each [columns, depth] if `by_columns`
  const std::int32_t* offsets;  // [experts + 1]
  const std::int32_t* sources;  // [rows]; null if x has the rows in this order
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
  std::int64_t experts;
  std::int64_t x_stride;       // elements from row to row
  std::int64_t expert_stride;  // from expert to expert
  std::int64_t weight_stride;  // from row to row, or from column to column
  bool by_columns;
};

// out[token] = the sum of weights[token, i] * values[places[token, i]], in this order.
struct Sum {
  void* out;                   // [tokens, columns], dense
  const void* values;          // [rows, columns], dense
  const float* weights;        // [tokens, k]
  const std::int32_t* places;  // [tokens, k]
  std::int64_t tokens;
  std::int64_t k;
  std::int64_t columns;
};

// `stream` is a cudaStream_t, and null on the CPU. Each returns a cudaError_t: 0 is success. `multiply` and `combine`
// are for float16 and bfloat16.
int route(Type type, const Route& tensors, void* stream);
int multiply(Type type, const Product& tensors, void* scratch, void* stream);
int combine(Type type, const Sum& tensors, void* stream);

// The bytes of device memory that `multiply` needs as `scratch` for these tensors: for rows of x in the order of the
// experts.
std::int64_t scratch_bytes(const Product& tensors);

std::int64_t working_size(std::int64_t tokens, std::int64_t count, std::int64_t k);

}  // namespace [[ module ]]_impl
