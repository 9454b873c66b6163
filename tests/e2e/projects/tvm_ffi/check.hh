#pragma once

#include <tvm/ffi/tvm_ffi.h>

inline void check(tvm::ffi::TensorView one, DLDeviceType device) {
  if (one.device().device_type != device) TVM_FFI_THROW(ValueError) << "the tensor is on another device";
  if (!one.IsContiguous()) TVM_FFI_THROW(ValueError) << "the tensor is not contiguous";
  const DLDataType type = one.dtype();
  if (type.code != kDLFloat || type.bits != 32) TVM_FFI_THROW(TypeError) << "the tensor is not float32";
}
