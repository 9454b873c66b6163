#include <Python.h>
#include <torch/library.h>

#include "portable.h"

TORCH_LIBRARY(portable_ext, ops) {
  ops.def("scaled(Tensor input, float factor=2.0, Tensor? bias=None) -> Tensor");
  ops.def("halves(Tensor input, int[] shape) -> Tensor[]", &halves);
}

TORCH_LIBRARY_IMPL(portable_ext, CPU, ops) { ops.impl("scaled", &scaled); }

extern "C" PyObject* PyInit__C() {  // without PyMODINIT_FUNC, as in PyTorch's own examples
  static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  return PyModule_Create(&module);
}
