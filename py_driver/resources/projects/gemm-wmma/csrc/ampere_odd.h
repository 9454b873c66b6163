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
  // `there` of the numbers are in the matrix, which is from `first` to `end`. Nothing here waits for what is loaded, but
  // for words that lie in the matrix only in part.
  __device__ void load(const T* from, int there, const T* first, const T* end) {
    const auto at = reinterpret_cast<std::uintptr_t>(from);
    const int needed = there > 0 ? static_cast<int>(at % 4 + there * sizeof(T) + 3) / 4 : 0;
    const auto* const words = reinterpret_cast<const unsigned*>(at - at % 4);
    if (needed == 0 || (static_cast<const void*>(words) >= first && static_cast<const void*>(words + needed) <= end)) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        words_[i] = i < needed ? __ldg(words + i) : 0;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        words_[i] = 0;
#pragma unroll
        for (int k = 0; k < 4 / static_cast<int>(sizeof(T)); ++k) {
          const T* const number = reinterpret_cast<const T*>(words + i) + k;
          if (number >= from && number < from + there) {
            words_[i] |= static_cast<unsigned>(*number) << k * 8 * sizeof(T);
          }
        }
      }
    }
  }

  // `there` numbers from where `load` had them, then zeros.
  __device__ uint4 chunk(const T* from, int there) const {
    const unsigned bits = reinterpret_cast<std::uintptr_t>(from) % 4 * 8;
    unsigned result[kWords - 1];
#pragma unroll
    for (int i = 0; i < kWords - 1; ++i) {
      const int left = there * static_cast<int>(sizeof(T)) * 8 - i * 32;
      const unsigned mask = left >= 32 ? ~0u : left > 0 ? (1u << left) - 1 : 0;
      result[i] = __funnelshift_r(words_[i], words_[i + 1], bits) & mask;
    }
    return {result[0], result[1], result[2], result[3]};
  }

 private:
  static constexpr int kWords = kChunk / 4 + 1;

  unsigned words_[kWords];
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
    loaded_ = from_;
    there_ = static_cast<int>(max(min(left_of_line_, static_cast<std::int64_t>(kWide)), std::int64_t{0}));
    lines_ = static_cast<int>(min(lines_left_, static_cast<std::int64_t>(Part::kLines)));
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      chunks_[i].load(from_ + i * kBetween * pitch_, i * kBetween < lines_ ? there_ : 0, first_, end_);
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
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      // All chunks of a thread are as far from a word as the first, since multiples of four lines lie between them.
      *reinterpret_cast<uint4*>(shared + to_ + i * kBetween * Part::kBytes) =
          chunks_[i].chunk(loaded_, i * kBetween < lines_ ? there_ : 0);
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
  const T* loaded_ = nullptr;  // what `next` asked for: from here, so many numbers of a line, so many lines
  int there_ = 0;
  int lines_ = 0;
  OddChunk<T> chunks_[kEach];
};
[% endraw %]

}  // namespace [[ module ]]_impl::ampere
[% endif %]
