[% raw %]
using Encode = decltype(&cuTensorMapEncodeTiled);

// A function of the driver: the runtime knows where, so that nothing links against libcuda.
inline Encode find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
#else
  cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
  return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(found) : nullptr;
}
[% endraw %]
