#include "common.h"
#ifdef CUDA_KERNEL
#include "only_cuda.h"
#endif

int sum() { return FIRST + SECOND + kNone; }
