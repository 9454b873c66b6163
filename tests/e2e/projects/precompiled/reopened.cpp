#include <torch/extension.h>

namespace at {
inline Tensor doubled(const Tensor& x) { return x + x; }
}  // namespace at

at::Tensor own(at::Tensor x) { return doubled(x); }
