#pragma once
#include <cstdint>

#include "device.h"

namespace {

// Calls `run` with pointers to the elements' type.
template <typename Run>
cudaError_t dispatch(int kind, const void* in, void* out, const Run& run) {
  switch (kind) {
    case 0: return run(static_cast<const float*>(in), static_cast<float*>(out));
    case 1: return run(static_cast<const std::int64_t*>(in), static_cast<std::int64_t*>(out));
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace
