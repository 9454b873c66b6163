[% extends "projects/gemm-wmma/csrc/NAME.cu" %]
[% block headers %]
#include "blackwell.h"
[% endblock %]
[% block faster %]
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1208
  const int result = run_on_blackwell(type, out, a, b, sizes, stream);
  if (result != kNotForBlackwell) {
    return result;
  }
#endif
[% endblock %]
