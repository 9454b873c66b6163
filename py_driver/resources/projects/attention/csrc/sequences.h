// Sequences of several lengths that lie one after another: where each begins, and which one a tile of rows belongs to.
#pragma once

#include <initializer_list>

#include "[[ module ]].h"

#ifdef __CUDACC__
#define HOST_AND_DEVICE __host__ __device__
#else
#define HOST_AND_DEVICE
#endif

namespace [[ module ]]_impl {
[% raw %]

// The rows of one tensor. Sequence i has those from offsets[i] to offsets[i + 1]; the first one begins with row 0, and
// rows after the last one are one more, number `count`. Wrong offsets give wrong rows, but none outside of the tensor.
class Offsets {
 public:
  HOST_AND_DEVICE Offsets(const int* offsets, int count, int rows) : offsets_(offsets), count_(count), rows_(rows) {}

  HOST_AND_DEVICE int begin(int sequence) const {
    if (sequence == 0 || sequence > count_) {
      return sequence == 0 ? 0 : rows_;
    }
    const int offset = offsets_[sequence];
    return offset < 0 ? 0 : offset < rows_ ? offset : rows_;
  }

  HOST_AND_DEVICE int length(int sequence) const {
    const int rows = begin(sequence + 1) - begin(sequence);
    return rows < 0 ? 0 : rows;
  }

  // Tiles of kRows rows belong to one sequence each. Where a sequence's tiles begin follows from its first row alone:
  // no sum over the sequences is needed. Some sequences have a tile too many, which is empty.
  template <int kRows>
  HOST_AND_DEVICE int tile(int sequence) const {
    return begin(sequence) / kRows + sequence;
  }

  // The sequence that a tile belongs to.
  template <int kRows>
  HOST_AND_DEVICE int find(int wanted) const {
    int low = 0;
    int high = count_;
    while (low < high) {
      const int middle = low + (high - low + 1) / 2;
      if (tile<kRows>(middle) <= wanted) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

 private:
  const int* offsets_;
  int count_;
  int rows_;
};

// How many tiles of `height` rows all sequences have, with those that are empty.
inline std::int64_t tiles_of(std::int64_t rows, std::int64_t count, std::int64_t height) {
  return rows / height + count + 1;
}

// A sequence's rows of q and of k.
struct Sequence {
  int query;
  int queries;
  int key;
  int keys;
};

// The rows of both tensors. Those after the last sequence meet none of the other tensor.
struct Packed {
  Offsets queries;
  Offsets keys;
  int count;

  HOST_AND_DEVICE Packed(const Sequences& sequences, std::int64_t of_queries, std::int64_t of_keys)
      : queries(sequences.queries, static_cast<int>(sequences.count), static_cast<int>(of_queries)),
        keys(sequences.keys, static_cast<int>(sequences.count), static_cast<int>(of_keys)),
        count(static_cast<int>(sequences.count)) {}

  HOST_AND_DEVICE Sequence sequence_of_queries(int number) const {
    const int seen = number < count ? keys.length(number) : 0;
    return {queries.begin(number), queries.length(number), keys.begin(number), seen};
  }

  HOST_AND_DEVICE Sequence sequence_of_keys(int number) const {
    const int seeing = number < count ? queries.length(number) : 0;
    return {queries.begin(number), seeing, keys.begin(number), keys.length(number)};
  }
};

HOST_AND_DEVICE inline View from_row(const View& view, std::int64_t row, int size) {
  return {static_cast<char*>(view.at) + row * view.row * size, view.batch, view.head, view.row};
}

// A sequence's part of all rows, of elements of `size` bytes. The scratch memory stays that of all.
HOST_AND_DEVICE inline Forward part_of(const Forward& all, const Sequence& sequence, int size) {
  Forward part = all;
  part.out = from_row(all.out, sequence.query, size);
  part.lse += sequence.query;
  part.q = from_row(all.q, sequence.query, size);
  part.k = from_row(all.k, sequence.key, size);
  part.v = from_row(all.v, sequence.key, size);
  return part;
}

HOST_AND_DEVICE inline Backward part_of(const Backward& all, const Sequence& sequence, int size) {
  Backward part = all;
  for (const auto view : {&Backward::grad_q, &Backward::grad_out, &Backward::out, &Backward::q}) {
    part.*view = from_row(all.*view, sequence.query, size);
  }
  for (const auto view : {&Backward::grad_k, &Backward::grad_v, &Backward::k, &Backward::v}) {
    part.*view = from_row(all.*view, sequence.key, size);
  }
  part.lse += sequence.query;
  return part;
}

HOST_AND_DEVICE inline Sizes part_of(const Sizes& all, const Sequence& sequence) {
  Sizes part = all;
  part.queries = sequence.queries;
  part.keys = sequence.keys;
  return part;
}
[% endraw %]

}  // namespace [[ module ]]_impl
