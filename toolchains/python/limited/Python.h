// registration.h declares PyModule_Create2 with types of its own, as no Python headers are there by default. Here Python's
// is an overload: C++ tells them apart by their arguments, and both are the one function that Python has. C reads no
// registration.h, and has no overloads.
#pragma once
#ifdef __cplusplus
#define PyModule_Create2 rules_torch_kernels_PyModule_Create2
#include_next <Python.h>
#undef PyModule_Create2
extern "C" PyObject* rules_torch_kernels_create_module(PyModuleDef*, int) __asm__("PyModule_Create2");
static inline PyObject* PyModule_Create2(PyModuleDef* definition, int api_version) {
  return rules_torch_kernels_create_module(definition, api_version);
}
#else
#include_next <Python.h>
#endif
