// Calls the host code of the kernels, without a GPU and without HIP's library: a test links it to their objects.
#include <cstddef>
#include <cstdint>
#include <cstdio>

double host_max(double a, double b);
float host_min(float a, float b);
std::int64_t host_max64(std::int64_t a, std::int64_t b);
std::size_t host_min_size(std::size_t a, std::size_t b);
double host_pow(double a, double b);
float host_floor(float a);
std::size_t host_list(std::size_t a, std::size_t b);

extern "C" {
double plain_max(double a, double b);
float plain_min(float a, float b);
std::int64_t plain_max64(std::int64_t a, std::int64_t b);
std::uint32_t plain_mixed(int a, std::uint32_t b);
const char* text();
int width();

// Of HIP's library, what code calls that registers kernels.
int hipLaunchKernel() { return 0; }
int __hipPopCallConfiguration() { return 0; }
int __hipPushCallConfiguration() { return 0; }
int __hipRegisterFunction() { return 0; }
int __hipUnregisterFatBinary() { return 0; }
void* __hipRegisterFatBinary() { return nullptr; }
}

int main() {
  const std::int64_t large = std::int64_t{1} << 40;
  std::printf("%g %g %d %d\n", host_max(0.75, 0.25), host_min(0.75f, 0.25f), host_max64(large, 1) == large,
              host_min_size(std::size_t(large), std::size_t(large) + 1) == std::size_t(large));
  std::printf("%g %g %zu\n", host_pow(2, 0.5), host_floor(1.5f), host_list(1, 2));
  std::printf("%g %g %d %u\n", plain_max(0.75, 0.25), plain_min(0.75f, 0.25f), plain_max64(large, 1) == large,
              plain_mixed(-1, 1));
  std::printf("%s %d\n", text(), width());
}
