[% extends "projects/gemm-wmma/csrc/NAME.cu" %]
[% block headers %]
#include "hopper.h"
[% endblock %]
[% block faster %]
#if __CUDACC_VER_MAJOR__ >= 12
  const int result = run_on_hopper(type, out, a, b, sizes, stream);
  if (result != kNotForHopper) {
    return result;
  }
#endif
[% endblock %]
