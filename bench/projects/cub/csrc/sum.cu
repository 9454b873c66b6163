#include "device.cuh"

#include <cub/device/device_reduce.cuh>

cudaError_t device_sum(int kind, void* scratch, std::size_t& bytes, const void* in, void* out, int count,
                       cudaStream_t stream) {
  return dispatch(kind, in, out, [&](auto from, auto to) {
    return cub::DeviceReduce::Sum(scratch, bytes, from, to, count, stream);
  });
}
