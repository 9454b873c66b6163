#include <torch/all.h>
// The author's own, in torch's namespace: torch::randint is the better match, and returns a tensor.
namespace torch {
struct Any {
  template <class T>
  Any(const T&) {}
};
inline float randint(Any, at::IntArrayRef) { return 1.f; }
template <class T>
__global__ void mark(float* out) {
  *out = sizeof(T);
}
template <class T>
void run(const T&, float* out) {
  mark<T><<<1, 1>>>(out);
}
void factory(float* out) { run(randint(int64_t(3), {2, 3}), out); }
}
