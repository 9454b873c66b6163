// What the binding calls. No type of torch or CUDA is named here, so that the kernels need none of their headers.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

enum class Type { float32, float16, bfloat16 };

// The widest head.
constexpr std::int64_t kMostWidth = 256;

// q has `heads` heads of `queries` rows, k and v have `kv_heads` of `keys` rows; a row has `width` elements. Head i of
// q goes with head i / (heads / kv_heads) of k and v. If causal, query i sees the keys up to i + keys - queries: the
// last query sees all. A query that sees no key has an output of 0 and a log-sum-exp of minus infinity.
struct Sizes {
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t width;
  bool causal;
  float scale;  // of q @ k^T, more than 0
};

// A tensor of four dimensions, [batch, head, row, element]: the ways in elements to the next batch, head and row. The
// elements of a row lie side by side.
struct View {
  void* at;
  std::int64_t batch;
  std::int64_t head;
  std::int64_t row;
};

// Sequences of several lengths. Their rows lie one after another in tensors of one batch, of which Sizes has all rows.
// Sequence i has the rows from queries[i] to queries[i + 1] of q, and from keys[i] to keys[i + 1] of k and v. Rows of q
// after the last one have an output of 0, and such rows of k and v gradients of 0.
struct Sequences {
  const std::int32_t* queries;
  const std::int32_t* keys;
  std::int64_t count;
};

struct Forward {
  View out;
  float* lse;  // log of the sum of exp(scale * q @ k^T), for each query: [batch, head, query]
  std::int64_t lse_head;  // the way to the next head there
  View q;
  View k;
  View v;
  float* scratch;  // as many float32 as forward_scratch() says
};

struct Backward {
  View grad_q;
  View grad_k;
  View grad_v;
  View grad_out;
  View out;
  const float* lse;
  std::int64_t lse_head;
  View q;
  View k;
  View v;
  float* scratch;   // as many float32 as backward_scratch() says
  bool repeatable;  // whether two runs must give the same bits
};

// `sequences` is null if there are none, `stream` a cudaStream_t, and null on the CPU. They return a cudaError_t: 0 is
// success. No size but `keys` is 0.
int forward(Type type, const Forward& tensors, const Sizes& sizes, const Sequences* sequences, void* stream);
int backward(Type type, const Backward& tensors, const Sizes& sizes, const Sequences* sequences, void* stream);

std::int64_t forward_scratch(Type type, const Sizes& sizes, const Sequences* sequences);
std::int64_t backward_scratch(Type type, const Sizes& sizes, const Sequences* sequences);

}  // namespace [[ module ]]_impl
