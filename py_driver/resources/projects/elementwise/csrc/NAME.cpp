[% if cpu %]
#include "[[ module ]].h"

#include <algorithm>

#include "vectors.h"

namespace [[ module ]]_impl {
namespace {

using vectors::kChunk;

VECTORS void silu(float* to, const float* from, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = from[i] * vectors::sigmoid(from[i]);
  }
}

// Where row `row` begins: all elements that differ in their last index alone.
std::int64_t place(std::int64_t row, const Layout& layout) {
  std::int64_t found = 0;
  for (int dim = layout.dims - 2; dim >= 0; --dim) {
    found += row % layout.sizes[dim] * layout.strides[dim];
    row /= layout.sizes[dim];
  }
  return found;
}

template <typename T>
void run_as(void* out, const void* in, const Layout* layout, std::int64_t count) {
  Layout own = layout ? *layout : Layout{1, {count}, {1}};
  while (own.dims > 1 && own.sizes[own.dims - 1] == 1) {
    --own.dims;  // it would make rows of one element
  }
  const std::int64_t columns = own.sizes[own.dims - 1];
  const std::int64_t stride = own.strides[own.dims - 1];
  const std::int64_t parts = (columns + kChunk - 1) / kChunk;
  const std::int64_t rows = count > 0 ? count / columns : 0;
#pragma omp parallel for if (count > vectors::kAlone)
  for (std::int64_t i = 0; i < rows * parts; ++i) {
    const std::int64_t row = i / parts;
    const std::int64_t first = i % parts * kChunk;
    const std::int64_t some = std::min(kChunk, columns - first);
    const T* const from = static_cast<const T*>(in) + place(row, own) + first * stride;
    T* const to = static_cast<T*>(out) + row * columns + first;
    float memory[kChunk];
    float* const values = vectors::room(memory, to);
    if (stride == 1) {
      silu(values, vectors::widened(memory, from, some), some);
    } else {
      for (std::int64_t k = 0; k < some; ++k) {
        memory[k] = vectors::load(from[k * stride]);
      }
      silu(values, memory, some);
    }
    vectors::narrow(to, values, some);
  }
}

}  // namespace

int run(Type type, void* out, const void* in, const Layout* layout, std::int64_t count, void*) {
  switch (type) {
    case Type::float32:
      run_as<float>(out, in, layout, count);
      break;
    case Type::float16:
      run_as<vectors::Half>(out, in, layout, count);
      break;
    case Type::bfloat16:
      run_as<vectors::BFloat16>(out, in, layout, count);
      break;
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
