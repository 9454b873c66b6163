#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <tuple>

#include "csrc/gemm.h"
#include "csrc/older.h"
#include "registration.h"

// Only sections that name CUTLASS see it; a test of the header as it is would name it.
#define VERSION_OF(library) <library/version.h>
#if __has_include(VERSION_OF(cutlass))
#error "the binding depends on torch alone"
#endif

using torch::stable::Tensor;

namespace {

void check(const Tensor& tensor) {
  STD_TORCH_CHECK(tensor.scalar_type() == torch::headeronly::ScalarType::Half, "a matrix is not float16");
  STD_TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous() && tensor.dim() == 2, "a matrix is not contiguous");
  STD_TORCH_CHECK(tensor.size(0) % 8 == 0 && tensor.size(1) % 8 == 0, "a size is not a multiple of eight");
}

Tensor gemm(Tensor a, Tensor b) {
  check(a);
  check(b);
  STD_TORCH_CHECK(a.size(1) == b.size(0), "the inner sizes differ");
  const torch::stable::accelerator::DeviceGuard guard(a.get_device_index());
  Tensor d = torch::stable::new_empty(a, {a.size(0), b.size(1)});
  void* stream = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(a.get_device_index(), &stream));
  const char* problem = gemm_f16(
      d.data_ptr(),
      a.data_ptr(),
      b.data_ptr(),
      static_cast<int>(a.size(0)),
      static_cast<int>(b.size(1)),
      static_cast<int>(a.size(1)),
      static_cast<cudaStream_t>(stream));
  STD_TORCH_CHECK(problem == nullptr, "CUTLASS: ", problem);
  return d;
}

std::tuple<int64_t, int64_t> cutlass_versions() { return {gemm_cutlass_version(), older_cutlass_version()}; }

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("gemm(Tensor a, Tensor b) -> Tensor");
  ops.def("cutlass_versions() -> (int, int)");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("gemm", TORCH_BOX(&gemm));
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
  ops.impl("cutlass_versions", TORCH_BOX(&cutlass_versions));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
