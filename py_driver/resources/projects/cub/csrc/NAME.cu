#include "[[ module ]].h"

#include <cub/device/device_scan.cuh>

#include "debug.h"

namespace [[ module ]]_impl {
namespace {

template <typename T>
int run_as(void* memory, std::size_t* bytes, void* out, const void* in, std::int64_t count, cudaStream_t stream) {
  return cub::DeviceScan::InclusiveSum(memory, *bytes, static_cast<const T*>(in), static_cast<T*>(out), count, stream);
}

}  // namespace

int run(Type type, void* memory, std::size_t* bytes, void* out, const void* in, std::int64_t count, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  switch (type) {
    case Type::float32:
      return run_as<float>(memory, bytes, out, in, count, on);
    case Type::int32:
      return run_as<std::int32_t>(memory, bytes, out, in, count, on);
    case Type::int64:
      return run_as<std::int64_t>(memory, bytes, out, in, count, on);
  }
  return cudaErrorInvalidValue;
}

}  // namespace [[ module ]]_impl
