// What a text for CUDA means: functions of `std` on both sides, CUDA's own `max` on the host, strings, an author's names.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

struct GpuDefs {
  int width;
};

template <class T>
__device__ T all_of_std(T a, T b) {
  int power = 0;
  T found = std::max(a, b) + std::min(a, b) + std::ceil(a) + std::floor(a) + std::exp(a) + std::log(a) + std::pow(a, b);
  found += std::fabs(a) + std::fmod(a, b) + std::remainder(a, b) + std::frexp(a, &power);
  return found + static_cast<T>(power) + std::max(a, b, [](T left, T right) { return left > right; });
}

__global__ void use_all(float* x, double* y, std::int64_t* z, int n) {
  const auto i = std::min(blockIdx.x * blockDim.x + threadIdx.x, static_cast<unsigned>(n));
  x[i] = all_of_std(x[i], x[i + 1]) + std::pow(x[i], 2);
  y[i] = all_of_std(y[i], y[i + 1]) + std::pow(y[i], 2) + std::exp(3);
  z[i] = std::max(z[i], z[i + 1]) + std::max({z[i], z[i + 1], z[i + 2]});
}

extern "C" {
double plain_max(double a, double b) { return max(a, b); }
float plain_min(float a, float b) { return ::min(a, b); }
std::int64_t plain_max64(std::int64_t a, std::int64_t b) { return max(a, b); }
std::uint32_t plain_mixed(int a, std::uint32_t b) { return max(a, b); }
const char* text() { return "cudaMalloc USE_CUDA"; }
int width() { return GpuDefs{7}.width; }
}

void run_all(float* x, double* y, std::int64_t* z, int n) { use_all<<<1, 64>>>(x, y, z, n); }
