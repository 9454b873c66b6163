[% if cuda %]
// Matrices in device memory, and how many parts of a size something has.
#pragma once

#include <cstdint>

namespace [[ module ]]_impl {
[% raw %]

inline std::int64_t parts(std::int64_t all, std::int64_t each) { return (all + each - 1) / each; }

inline std::int64_t rounded(std::int64_t all, std::int64_t each) { return parts(all, each) * each; }

struct Matrix {
  const void* first;
  std::int64_t columns;
  std::int64_t rows;
  std::int64_t pitch;  // elements from row to row
};

// Whether 16 bytes can be read anywhere in a matrix at once, and TMA can read it.
inline bool is_aligned(const void* matrix, std::int64_t row_bytes) {
  return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && row_bytes % 16 == 0;
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
