#include <tvm/ffi/tvm_ffi.h>

#define TEXT_(NAME) #NAME
#define TEXT(NAME) TEXT_(NAME)

using tvm::ffi::TensorView;

tvm::ffi::String unique_id() { return TEXT(TVM_FFI_EXTENSION_NAME); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(unique_id, unique_id);

#ifdef CPU_KERNEL
void scale_cpu(TensorView out, TensorView in, double factor);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, scale_cpu);
#endif

#ifdef CUDA_KERNEL
void scale_cuda(TensorView out, TensorView in, double factor);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, scale_cuda);
#endif

static_assert(OF_THE_BINDING == 1, "the flags of the binding are missing");
