[% if cuda %]
// What the kernels for GPUs share: loads of 16 bytes, and a function for each type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <initializer_list>

#include "[[ module ]].h"
#include "debug.h"

namespace [[ module ]]_impl {

constexpr int kLanes = 32;
constexpr int kPackBytes = 16;

// What a thread loads or stores at once: 16 bytes if all rows are aligned to that, else one element.
template <typename T, bool kWide>
struct alignas(kWide ? kPackBytes : sizeof(T)) Pack {
  static constexpr int size = kWide ? kPackBytes / static_cast<int>(sizeof(T)) : 1;
  T of[size];
};

// The packs of a row.
template <class Own>
__device__ Own* row_of(const Rows& rows, std::int64_t row) {
  return reinterpret_cast<Own*>(static_cast<char*>(rows.at) + row * rows.stride * (sizeof(Own) / Own::size));
}

inline bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % kPackBytes == 0; }

template <typename T>
bool are_packs(std::int64_t elements) {
  return elements * static_cast<std::int64_t>(sizeof(T)) % kPackBytes == 0;
}

// Whether each row begins where a pack can be read; a null tensor does.
template <typename T>
bool begin_at_packs(std::initializer_list<Rows> tensors) {
  for (const Rows& rows : tensors) {
    if (!is_aligned(rows.at) || !are_packs<T>(rows.stride)) {
      return false;
    }
  }
  return true;
}

// Calls `function` with a 0 of the type.
template <class Function>
int with_type(Type type, Function function) {
  switch (type) {
    case Type::float32:
      return function(float());
    case Type::float16:
      return function(__half());
    case Type::bfloat16:
      return function(__nv_bfloat16());
  }
  return cudaErrorInvalidValue;
}

}  // namespace [[ module ]]_impl
[% endif %]
