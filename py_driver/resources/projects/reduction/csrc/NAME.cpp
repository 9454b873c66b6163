[% if cpu %]
#include "[[ module ]].h"

#include <limits>
#include <vector>

#include "vectors.h"

namespace [[ module ]]_impl {
namespace {

// Both rows may be one.
VECTORS void softmax(float* to, const float* from, std::int64_t columns) {
  const float largest = vectors::combined(
      0, columns, -std::numeric_limits<float>::max(), [&](std::int64_t i) { return from[i]; },
      [](float left, float right) { return right > left ? right : left; });
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    to[i] = vectors::exp_of_negative(from[i] - largest);
  }
  const float scale = 1.0f / vectors::added(columns, [&](std::int64_t i) { return to[i]; });
  for (std::int64_t i = 0; i < columns; ++i) {
    to[i] *= scale;
  }
}

template <typename T>
void run_as(void* out, const void* in, std::int64_t rows, std::int64_t columns) {
#pragma omp parallel if (rows * columns > vectors::kAlone)
  {
    std::vector<float> memory(columns);
#pragma omp for
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const to = static_cast<T*>(out) + row * columns;
      const T* const from = static_cast<const T*>(in) + row * columns;
      float* const values = vectors::room(memory.data(), to);
      softmax(values, vectors::widened(memory.data(), from, columns), columns);
      vectors::narrow(to, values, columns);
    }
  }
}

}  // namespace

int run(Type type, void* out, const void* in, std::int64_t rows, std::int64_t columns, int, void*) {
  switch (type) {
    case Type::float32:
      run_as<float>(out, in, rows, columns);
      break;
    case Type::float16:
      run_as<vectors::Half>(out, in, rows, columns);
      break;
    case Type::bfloat16:
      run_as<vectors::BFloat16>(out, in, rows, columns);
      break;
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
