[% if cpu %]
#include "[[ module ]].h"

#include <cmath>

#include "small_floats.h"

namespace [[ module ]]_impl {
namespace {

// Where the element `i` of a dense tensor lies in one of any strides.
std::int64_t place(std::int64_t i, const Layout& layout) {
  std::int64_t found = 0;
  for (int dim = layout.dims - 1; dim >= 0; --dim) {
    found += i % layout.sizes[dim] * layout.strides[dim];
    i /= layout.sizes[dim];
  }
  return found;
}

template <typename T>
void run_as(void* out, const void* in, const Layout* layout, std::int64_t count) {
  auto* to = static_cast<T*>(out);
  const auto* from = static_cast<const T*>(in);
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(from[layout ? place(i, *layout) : i]);
    to[i] = small_floats::round_to<T>(x / (1.0f + std::exp(-x)));
  }
}

}  // namespace

int run(Type type, void* out, const void* in, const Layout* layout, std::int64_t count, void*) {
  switch (type) {
    case Type::float32:
      run_as<float>(out, in, layout, count);
      break;
    case Type::float16:
      run_as<small_floats::Half>(out, in, layout, count);
      break;
    case Type::bfloat16:
      run_as<small_floats::BFloat16>(out, in, layout, count);
      break;
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
