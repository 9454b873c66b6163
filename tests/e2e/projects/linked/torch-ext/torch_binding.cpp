#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "csrc/kernels.h"
#include "registration.h"

namespace {

void check(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous(), "the tensor is not contiguous on a GPU");
  TORCH_CHECK(tensor.scalar_type() == at::kFloat, "the tensor has another type");
}

void set_table_of(const at::Tensor& values) {
  TORCH_CHECK(values.is_cpu() && values.is_contiguous() && values.numel() == 8, "the table has eight numbers");
  C10_CUDA_CHECK(set_table(values.const_data_ptr<float>()));
}

int64_t calls_of() {
  int found = 0;
  C10_CUDA_CHECK(read_calls(&found));
  return found;
}

at::Tensor apply_of(const at::Tensor& in) {
  check(in);
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor out = at::empty_like(in);
  const int size = static_cast<int>(in.numel());
  C10_CUDA_CHECK(
      apply(in.const_data_ptr<float>(), out.data_ptr<float>(), size, c10::cuda::getCurrentCUDAStream().stream()));
  return out;
}

void twice_of(at::Tensor& values) {
  check(values);
  const c10::cuda::CUDAGuard guard(values.device());
  const int size = static_cast<int>(values.numel());
  C10_CUDA_CHECK(twice(values.data_ptr<float>(), size, c10::cuda::getCurrentCUDAStream().stream()));
}

#if CUDART_VERSION >= 13000
void nest_of(at::Tensor& values) {
  check(values);
  const c10::cuda::CUDAGuard guard(values.device());
  const int size = static_cast<int>(values.numel());
  C10_CUDA_CHECK(nest(values.data_ptr<float>(), size, c10::cuda::getCurrentCUDAStream().stream()));
}
#endif

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("set_table(Tensor values) -> ()", &set_table_of);
  ops.def("calls() -> int", &calls_of);
  ops.def("apply(Tensor x) -> Tensor", &apply_of);
  ops.def("twice(Tensor(a!) x) -> ()", &twice_of);
#if CUDART_VERSION >= 13000
  ops.def("nest(Tensor(a!) x) -> ()", &nest_of);
#endif
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
