#include <curand_kernel.h>

__global__ void noise(float* out, unsigned long long seed) {
  curandStatePhilox4_32_10_t state;
  curand_init(seed, threadIdx.x, 0, &state);
  out[threadIdx.x] = curand_normal(&state) + curand_uniform4(&state).x;
}
