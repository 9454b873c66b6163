#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudaProfiler.h>
#include <cuda_profiler_api.h>
#include <cufft.h>
#include <cufftXt.h>
#include <curand.h>
#include <cusolverDn.h>
#include <cusolverSp.h>
#include <cusparse.h>
#include <nvJitLink.h>
#include <nvrtc.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvtx3.hpp>

// Whether each library says a version: the calls are what matters.
bool calls() {
  const nvtx3::scoped_range range("libraries");
  nvtxMarkA("versions");
  int version = 0;
  unsigned int major = 0;
  unsigned int minor = 0;
  cublasHandle_t blas = nullptr;
  cusparseHandle_t sparse = nullptr;
  bool said = cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS && cublasGetVersion(blas, &version) == CUBLAS_STATUS_SUCCESS;
  const char* name = nullptr;
  said = said && cuGetErrorName(CUDA_SUCCESS, &name) == CUDA_SUCCESS;
  said = said && cublasLtGetVersion() > 0;
  said = said && cufftGetVersion(&version) == CUFFT_SUCCESS;
  said = said && curandGetVersion(&version) == CURAND_STATUS_SUCCESS;
  said = said && cusolverGetVersion(&version) == CUSOLVER_STATUS_SUCCESS;
  said = said && cusparseCreate(&sparse) == CUSPARSE_STATUS_SUCCESS;
  said = said && nvrtcVersion(&version, &version) == NVRTC_SUCCESS;
  said = said && nvJitLinkVersion(&major, &minor) == NVJITLINK_SUCCESS;
  return said && cudaProfilerStart() == cudaSuccess;
}
