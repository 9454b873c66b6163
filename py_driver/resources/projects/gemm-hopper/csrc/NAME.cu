[% extends "projects/gemm-wmma/csrc/NAME.cu" %]
[% block headers %]
#include "hopper.h"
[% endblock %]
[% block scratch %]
#if __CUDACC_VER_MAJOR__ >= 12
  const std::int64_t bytes = scratch_on_hopper(type, out, a, b, sizes);
  if (bytes != kNotForHopper) {
    return bytes;
  }
#endif
[% endblock %]
[% block faster %]
#if __CUDACC_VER_MAJOR__ >= 12
  const int result = run_on_hopper(type, out, a, b, sizes, scratch, stream);
  if (result != kNotForHopper) {
    return result;
  }
#endif
[% endblock %]
