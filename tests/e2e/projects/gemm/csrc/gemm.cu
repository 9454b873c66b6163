#include "gemm.h"

#include "cutlass/cutlass.h"
#include "cutlass/gemm/device/gemm.h"
#include "cutlass/util/packed_stride.hpp"
#include "cutlass/version.h"

static_assert(CUTLASS_MAJOR == 3 && CUTLASS_MINOR == 6, "`depends` says CUTLASS 3.6");

namespace {

using Row = cutlass::layout::RowMajor;
using Half = cutlass::half_t;
using Gemm = cutlass::gemm::device::
    Gemm<Half, Row, Half, Row, Half, Row, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80>;

}  // namespace

const char* gemm_f16(void* d, const void* a, const void* b, int m, int n, int k, cudaStream_t stream) {
  auto* to = static_cast<Half*>(d);
  const Gemm::Arguments arguments(
      {m, n, k},
      {static_cast<const Half*>(a), k},
      {static_cast<const Half*>(b), n},
      {to, n},
      {to, n},
      {1.0F, 0.0F});
  Gemm gemm;
  const cutlass::Status status = gemm(arguments, nullptr, stream);
  return status == cutlass::Status::kSuccess ? nullptr : cutlass::cutlassGetStatusString(status);
}

int gemm_cutlass_version() { return 100 * CUTLASS_MAJOR + CUTLASS_MINOR; }
