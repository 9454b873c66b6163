#ifndef RELU_H
#define RELU_H
#include <torch/all.h>
#ifdef SLOW
#include <ATen/cuda/CUDAContext.h>
#endif
#endif
