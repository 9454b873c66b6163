#include "device.cuh"

#include <cub/device/device_radix_sort.cuh>

cudaError_t device_sort(int kind, void* scratch, std::size_t& bytes, const void* in, void* out, int count,
                        cudaStream_t stream) {
  return dispatch(kind, in, out, [&](auto from, auto to) {
    return cub::DeviceRadixSort::SortKeys(scratch, bytes, from, to, count, 0, 8 * sizeof(*from), stream);
  });
}
