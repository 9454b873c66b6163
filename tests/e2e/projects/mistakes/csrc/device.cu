#include "device.cuh"

__global__ void device(int* out) {
    *out = halve(4);
}
