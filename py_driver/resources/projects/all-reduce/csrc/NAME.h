// What the binding calls. No type of torch or CUDA is named here.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {

enum class Type { float32, float16, bfloat16 };

constexpr int kMaxRanks = 8;
constexpr int kMaxBlocks = 64;

// Memory of all ranks, as this GPU addresses it: of each rank two buffers of `capacity` bytes, and behind them
// its signals, `kSignals` words, zero before the first call.
struct Peers {
  void* memory[kMaxRanks];
  std::int64_t capacity;
  int rank;
  int ranks;
};

// A word for each block and rank, then each block's count of barriers, the count of calls, and of blocks that are done.
constexpr int kSignals = kMaxBlocks * kMaxRanks + kMaxBlocks + 2;

// out = the sum of `in` over the ranks, added in their order and in float32, so all ranks get the same bits. Both are
// dense and aligned to 16 bytes, with `count` elements of at most `capacity` bytes. Ranks make the same calls in the
// same order, on one stream. With `two_shot` each rank adds up its share and the others read it, else each adds up all.
// `stream` is a cudaStream_t. Returns a cudaError_t: 0 is success.
int run(Type type, const Peers& peers, void* out, const void* in, std::int64_t count, bool two_shot, void* stream);

}  // namespace [[ module ]]_impl
