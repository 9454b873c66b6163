[% extends "projects/gemm-wmma/csrc/NAME.cu" %]
[% block headers %]
#include "hopper.h"
[% endblock %]
[% block scratch %]
std::int64_t scratch_bytes(Type type, const void* a, const void* b, const Sizes& sizes) {
#if __CUDACC_VER_MAJOR__ >= 12
  return scratch_on_hopper(type, a, b, sizes);
#else
  return 0;
#endif
}

[% endblock %]
[% block argument %], void* scratch[% endblock %]
[% block faster %]
#if __CUDACC_VER_MAJOR__ >= 12
  const int result = run_on_hopper(type, out, a, b, sizes, scratch, stream);
  if (result != kNotForHopper) {
    return result;
  }
#endif
[% endblock %]
