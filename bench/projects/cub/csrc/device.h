#pragma once
#include <cuda_runtime.h>

#include <cstddef>

// CUB's device algorithms; the type of the elements follows from `kind`: 0 is float, 1 is int64_t. Without scratch memory
// they only say how many bytes of it they need.
cudaError_t device_sum(int kind, void* scratch, std::size_t& bytes, const void* in, void* out, int count,
                       cudaStream_t stream);
cudaError_t device_sort(int kind, void* scratch, std::size_t& bytes, const void* in, void* out, int count,
                        cudaStream_t stream);
