[% if cuda %]
// Parts of a matrix whose rows are not aligned, on the way to shared memory through registers.
#pragma once

#include <cstdint>

#include "ampere_ptx.h"

namespace [[ module ]]_impl::ampere {
[% raw %]

// As Reader, but `next` only asks for the aligned words that a part lies in, and `put` writes the part: what is between
// them need not wait.
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
    there_ = static_cast<int>(max(min(left_of_line_, std::int64_t{kWide}), std::int64_t{0}));
    const int lines = static_cast<int>(max(min(lines_left_, std::int64_t{Part::kLines}), std::int64_t{0}));
    chunks_ = (lines + kBetween - 1) / kBetween;
    // The same for all chunks of a thread, since multiples of four lines lie between them.
    before_ = reinterpret_cast<std::uintptr_t>(from_) % 4;
    const int needed = there_ > 0 ? (before_ + there_ * static_cast<int>(sizeof(T)) + 3) / 4 : 0;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(from_) - before_;
    const std::int64_t between = kBetween * pitch_ * static_cast<std::int64_t>(sizeof(T));
    const bool inside = bytes >= reinterpret_cast<const unsigned char*>(first_) &&
                        bytes + (chunks_ - 1) * between + needed * 4 <= reinterpret_cast<const unsigned char*>(end_);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const auto* const words = reinterpret_cast<const unsigned*>(bytes + i * between);
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        const bool wanted = i < chunks_ && k < needed;
        words_[i][k] = wanted && inside ? __ldg(words + k) : 0;
        if (wanted && !inside) {
          words_[i][k] = own_part(words + k, from_ + i * kBetween * pitch_);
        }
      }
    }
    if constexpr (kAlong) {
      from_ += kForward;
      left_of_line_ -= kForward;
    } else {
      from_ += Part::kLines * pitch_;
      lines_left_ -= Part::kLines;
    }
  }

  // What lies outside of the matrix is 0.
  __device__ void put(unsigned char* shared) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      unsigned chunk[kWords - 1];
#pragma unroll
      for (int k = 0; k < kWords - 1; ++k) {
        chunk[k] = __funnelshift_r(words_[i][k], words_[i][k + 1], before_ * 8);
      }
      if (there_ < kWide) {
#pragma unroll
        for (int k = 0; k < kWords - 1; ++k) {
          const int bits = there_ * static_cast<int>(sizeof(T)) * 8 - k * 32;
          chunk[k] &= bits >= 32 ? ~0u : bits > 0 ? (1u << bits) - 1 : 0;
        }
      }
      *reinterpret_cast<uint4*>(shared + to_ + i * kBetween * Part::kBytes) = {chunk[0], chunk[1], chunk[2], chunk[3]};
    }
  }

 private:
  static constexpr int kWide = kChunk / sizeof(T);
  static constexpr int kWords = kChunk / 4 + 1;
  static constexpr int kForward = Part::kBytes / sizeof(T);
  static constexpr int kEach = Part::kLines * Part::kChunks / kThreads;
  static constexpr int kBetween = kThreads / Part::kChunks;  // lines between two chunks of a thread
  static_assert(kBetween % Part::kSame == 0 && kBetween % 4 == 0 && kEach * kBetween == Part::kLines);

  __device__ static int own_line() { return threadIdx.x / Part::kChunks; }
  __device__ static int own_column() { return threadIdx.x % Part::kChunks * kWide; }

  // A word that may lie in the matrix only in part: the numbers of it from `from` on, as far as they are there.
  __device__ unsigned own_part(const unsigned* word, const T* from) const {
    unsigned result = 0;
#pragma unroll
    for (int i = 0; i < 4 / static_cast<int>(sizeof(T)); ++i) {
      const T* const number = reinterpret_cast<const T*>(word) + i;
      if (number >= from && number < from + there_) {
        result |= static_cast<unsigned>(*number) << i * 8 * sizeof(T);
      }
    }
    return result;
  }

  const T* first_;
  const T* end_;
  const T* from_;
  std::int64_t lines_left_;
  std::int64_t left_of_line_;
  std::int64_t pitch_;
  int to_;
  // What `next` asked for: so many chunks of so many numbers, which begin so many bytes after a word.
  int chunks_ = 0;
  int there_ = 0;
  int before_ = 0;
  unsigned words_[kEach][kWords];
};
[% endraw %]

}  // namespace [[ module ]]_impl::ampere
[% endif %]
