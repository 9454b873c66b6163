[% if cpu %]
#include "[[ module ]].h"

namespace [[ module ]]_impl {

int run(float* out, const float* in, std::int64_t count, void*) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = 2.0f * in[i];
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
