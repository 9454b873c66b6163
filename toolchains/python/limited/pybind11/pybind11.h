#pragma once
#include <Python.h>
namespace pybind11 {}
#define PYBIND11_MODULE(NAME, MODULE, ...) \
  static_assert(false, "pybind11 is for one Python version, and a kernel for all: register the ops with " \
      "TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops), then REGISTER_EXTENSION(TORCH_EXTENSION_NAME)"); \
  template <typename T> static void rules_torch_kernels_no_pybind11(T& MODULE)
