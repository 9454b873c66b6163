[% if cpu %]
#ifdef CPU_KERNEL
#include <ATen/Parallel.h>
[% endif %]
[% if cpu and gpu %]
#else
[% endif %]
[% if gpu %]
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
[% endif %]
[% if cpu %]
#endif
[% endif %]
