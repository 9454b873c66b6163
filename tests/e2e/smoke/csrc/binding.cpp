#include <ATen/core/Tensor.h>
#include <torch/library.h>

#ifdef CUDA_KERNEL
#include <c10/cuda/CUDAStream.h>
#endif

#include "registration.h"
#include "scale.h"

namespace {

void scale_into(at::Tensor &out, const at::Tensor &in, double factor) {
  TORCH_CHECK(in.scalar_type() == at::kFloat && in.is_contiguous() && out.is_contiguous(), "contiguous float32 is expected");
  TORCH_CHECK(out.sizes() == in.sizes() && out.scalar_type() == in.scalar_type(), "out and in must be alike");
  void *stream = nullptr;
#ifdef CUDA_KERNEL
  stream = c10::cuda::getCurrentCUDAStream(in.device().index()).stream();
#endif
  scale(out.mutable_data_ptr<float>(), in.const_data_ptr<float>(), static_cast<float>(factor), in.numel(), stream);
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("scale(Tensor(a!) out, Tensor input, float factor) -> ()");
#ifdef CUDA_KERNEL
  ops.impl("scale", c10::DispatchKey::CUDA, &scale_into);
#else
  ops.impl("scale", c10::DispatchKey::CPU, &scale_into);
#endif
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
