[% if gpu %]
[% if cpu %]
#ifndef CPU_KERNEL
[% endif %]
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
[% if cpu %]
#endif
[% endif %]
[% endif %]
