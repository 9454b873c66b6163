// How a kernel's binding registers its ops and makes its library importable. Included as "registration.h".
//
//   TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("relu(Tensor! out, Tensor input) -> ()"); ... }
//   REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
//
// or, for torch's stable ABI,
//
//   STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("relu(Tensor! out, Tensor input) -> ()"); }
//   STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) { ops.impl("relu", TORCH_BOX(&relu)); }
//   REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
//
// TORCH_EXTENSION_NAME is the unique id of the kernel, which the build defines.
#pragma once

// Torch's registration macros paste their arguments; these expand a macro given as NAME first. The first three need
// torch/library.h, the others torch/csrc/stable/library.h; the source includes which it uses, before or after this.
#define TORCH_LIBRARY_EXPAND(NAME, MODULE) TORCH_LIBRARY(NAME, MODULE)
#define TORCH_LIBRARY_IMPL_EXPAND(NAME, DEVICE, MODULE) TORCH_LIBRARY_IMPL(NAME, DEVICE, MODULE)
#define TORCH_LIBRARY_FRAGMENT_EXPAND(NAME, MODULE) TORCH_LIBRARY_FRAGMENT(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_EXPAND(NAME, MODULE) STABLE_TORCH_LIBRARY(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(NAME, DEVICE, MODULE) STABLE_TORCH_LIBRARY_IMPL(NAME, DEVICE, MODULE)
#define STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(NAME, MODULE) STABLE_TORCH_LIBRARY_FRAGMENT(NAME, MODULE)

// The part of Python's stable ABI (PEP 384; the same in every Python since 3.2) that an importable library needs. It is
// declared here, so that no Python headers enter a build and nothing outside the limited API can be used by accident.
namespace rules_torch_kernels {

struct PyObjectHead {
  long long reference_count;
  void* type;
};

struct PyModuleDefBase {
  PyObjectHead head;
  void* (*init)();
  long long index;
  void* copy;
};

struct PyModuleDef {
  PyModuleDefBase base;
  const char* name;
  const char* doc;
  long long size;
  void* methods;
  void* slots;
  void* traverse;
  void* clear;
  void* free;
};

}  // namespace rules_torch_kernels

extern "C" void* PyModule_Create2(rules_torch_kernels::PyModuleDef* definition, int api_version);

#define RULES_TORCH_KERNELS_CONCAT_(A, B) A##B
#define RULES_TORCH_KERNELS_CONCAT(A, B) RULES_TORCH_KERNELS_CONCAT_(A, B)
#define RULES_TORCH_KERNELS_STRING_(A) #A
#define RULES_TORCH_KERNELS_STRING(A) RULES_TORCH_KERNELS_STRING_(A)

// Defines the entry point of `import NAME`: an empty module, whose import runs the library's static registrations.
// 3 is the version of the stable ABI (PYTHON_ABI_VERSION).
#define REGISTER_EXTENSION(NAME)                                                                     \
  extern "C" __attribute__((visibility("default"))) void* RULES_TORCH_KERNELS_CONCAT(PyInit_, NAME)() { \
    static rules_torch_kernels::PyModuleDef definition = {                                           \
        {{1, nullptr}, nullptr, 0, nullptr},                                                         \
        RULES_TORCH_KERNELS_STRING(NAME),                                                            \
        nullptr,                                                                                     \
        0,                                                                                           \
        nullptr,                                                                                     \
        nullptr,                                                                                     \
        nullptr,                                                                                     \
        nullptr,                                                                                     \
        nullptr};                                                                                    \
    return PyModule_Create2(&definition, 3);                                                         \
  }
