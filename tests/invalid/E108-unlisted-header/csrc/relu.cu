#include "relu.h"
#include "detail/vector.cuh" // not listed
#include <cuda_runtime.h>
#ifdef USE_ROCM
#include "detail/hip_compat.h"
#endif
/* #include "detail/old.h" */
