[% if cuda %]
// Parts of a matrix whose rows are not aligned on the way to shared memory: through registers, not copied first.
#pragma once

#include <cstdint>

#include "ampere_ptx.h"

namespace [[ module ]]_impl::ampere {
[% raw %]

// 16 bytes of a row from wherever they are: the words that they lie in, which are aligned.
template <typename T>
class OddChunk {
 public:
  // `there` of the numbers are in the matrix, which is from `first` to `end`; the others are 0.
  __device__ void load(const T* from, std::int64_t there, const T* first, const T* end) {
    const unsigned bits = bits_before(from);
    const auto* const words = reinterpret_cast<const unsigned*>(reinterpret_cast<std::uintptr_t>(from) - bits / 8);
    if (there >= kWide && static_cast<const void*>(words) >= first && static_cast<const void*>(words + 5) <= end) {
#pragma unroll
      for (int i = 0; i < 5; ++i) {
        words_[i] = __ldg(words + i);
      }
    } else {
      alignas(kChunk) T values[kWide];
#pragma unroll
      for (int i = 0; i < kWide; ++i) {
        values[i] = i < there ? from[i] : T{};
      }
      const uint4 chunk = *reinterpret_cast<const uint4*>(values);
      words_[0] = chunk.x << bits;
      words_[1] = __funnelshift_l(chunk.x, chunk.y, bits);
      words_[2] = __funnelshift_l(chunk.y, chunk.z, bits);
      words_[3] = __funnelshift_l(chunk.z, chunk.w, bits);
      words_[4] = __funnelshift_l(chunk.w, 0, bits);
    }
  }

  // Without the bits before it.
  __device__ uint4 after(unsigned bits) const {
    return {__funnelshift_r(words_[0], words_[1], bits), __funnelshift_r(words_[1], words_[2], bits),
            __funnelshift_r(words_[2], words_[3], bits), __funnelshift_r(words_[3], words_[4], bits)};
  }

  // Of the first word: they belong to no number of the chunk.
  __device__ static unsigned bits_before(const T* from) { return reinterpret_cast<std::uintptr_t>(from) % 4 * 8; }

 private:
  static constexpr int kWide = kChunk / sizeof(T);

  unsigned words_[5];
};

// As Reader, but `next` only asks for the parts, and `put` writes them: what lies between need not wait for them.
template <typename T, class Part, int kThreads, bool kAlong>
class OddReader {
 public:
  __device__ OddReader(const T* matrix, std::int64_t line, std::int64_t column, std::int64_t lines, std::int64_t length,
                       std::int64_t pitch)
      : first_(matrix),
        end_(matrix + (lines - 1) * pitch + length),
        from_(matrix + (line + own_line()) * pitch + column + own_column()),
        lines_left_(lines - line - own_line()),
        left_of_line_(length - column - own_column()),
        pitch_(pitch),
        to_(Part::place(own_line(), threadIdx.x % Part::kChunks)) {}

  __device__ void next() {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t there = i * kBetween < lines_left_ ? left_of_line_ : 0;
      chunks_[i].load(from_ + i * kBetween * pitch_, there, first_, end_);
    }
    if constexpr (kAlong) {
      from_ += kForward;
      left_of_line_ -= kForward;
    } else {
      from_ += Part::kLines * pitch_;
      lines_left_ -= Part::kLines;
    }
  }

  __device__ void put(unsigned char* shared) {
    // The same for all chunks of a thread, since multiples of four lines and whole chunks lie between them.
    const unsigned bits = OddChunk<T>::bits_before(from_);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      *reinterpret_cast<uint4*>(shared + to_ + i * kBetween * Part::kBytes) = chunks_[i].after(bits);
    }
  }

 private:
  static constexpr int kWide = kChunk / sizeof(T);
  static constexpr int kForward = Part::kBytes / sizeof(T);
  static constexpr int kEach = Part::kLines * Part::kChunks / kThreads;
  static constexpr int kBetween = kThreads / Part::kChunks;  // lines between two chunks of a thread
  static_assert(kBetween % Part::kSame == 0 && kBetween % 4 == 0 && kEach * kBetween == Part::kLines);

  __device__ static int own_line() { return threadIdx.x / Part::kChunks; }
  __device__ static int own_column() { return threadIdx.x % Part::kChunks * kWide; }

  const T* first_;
  const T* end_;
  const T* from_;
  std::int64_t lines_left_;
  std::int64_t left_of_line_;
  std::int64_t pitch_;
  int to_;
  OddChunk<T> chunks_[kEach];
};
[% endraw %]

}  // namespace [[ module ]]_impl::ampere
[% endif %]
