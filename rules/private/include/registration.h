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

// Upstream's includes Python's headers. Here they are in sight of sources that include or use them, and no others.
#if __has_include(<Python.h>)
#include <Python.h>
#endif

#define RULES_TORCH_KERNELS_CONCAT_(A, B) A##B
#define RULES_TORCH_KERNELS_CONCAT(A, B) RULES_TORCH_KERNELS_CONCAT_(A, B)
#define RULES_TORCH_KERNELS_STRING_(A) #A
#define RULES_TORCH_KERNELS_STRING(A) RULES_TORCH_KERNELS_STRING_(A)

// MACRO_of_own_id where NAME, as the source spells it, is TORCH_EXTENSION_NAME and the build adds the id when it links;
// else MACRO_of_given_name. An operand of `##` is not expanded, so the name can be told from the id that it stands for.
// What is of the own id does not have it in its text: every edit of a kernel changes the id, and compiling a binding anew
// would cost more than the edit. A source must not define TORCH_EXTENSION_NAME itself: it would not be asked.
#ifdef TORCH_EXTENSION_NAME_IS_LINKED
#define RULES_TORCH_KERNELS_IS_TORCH_EXTENSION_NAME ~, of_own_id
#endif
#define RULES_TORCH_KERNELS_SECOND_(A, B, ...) B
#define RULES_TORCH_KERNELS_SECOND(...) RULES_TORCH_KERNELS_SECOND_(__VA_ARGS__)
#define RULES_TORCH_KERNELS_CHOOSE(MACRO, IS) \
  RULES_TORCH_KERNELS_CONCAT(MACRO, RULES_TORCH_KERNELS_SECOND(IS, of_given_name, ~))

// Torch's registration macros paste their arguments; these expand a macro given as NAME first. The first three need
// torch/library.h, the others torch/csrc/stable/library.h; the source includes which it uses, before or after this.
#define TORCH_LIBRARY_EXPAND(NAME, MODULE) \
  RULES_TORCH_KERNELS_CHOOSE(RULES_TORCH_KERNELS_LIBRARY_, RULES_TORCH_KERNELS_IS_##NAME)(NAME, MODULE)
#define TORCH_LIBRARY_IMPL_EXPAND(NAME, DEVICE, MODULE) \
  RULES_TORCH_KERNELS_CHOOSE(RULES_TORCH_KERNELS_IMPL_, RULES_TORCH_KERNELS_IS_##NAME)(NAME, DEVICE, MODULE)
#define TORCH_LIBRARY_FRAGMENT_EXPAND(NAME, MODULE) \
  RULES_TORCH_KERNELS_CHOOSE(RULES_TORCH_KERNELS_FRAGMENT_, RULES_TORCH_KERNELS_IS_##NAME)(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_EXPAND(NAME, MODULE) STABLE_TORCH_LIBRARY(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(NAME, DEVICE, MODULE) STABLE_TORCH_LIBRARY_IMPL(NAME, DEVICE, MODULE)
#define STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(NAME, MODULE) STABLE_TORCH_LIBRARY_FRAGMENT(NAME, MODULE)

// The part of Python's stable ABI (PEP 384; the same in every Python since 3.2) that an importable library needs. It is
// declared here, so that a build does without Python's headers, and nothing outside the limited API can be used by accident.
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

// With all of the API of one Python in sight it is Python's own: such a library has PYBIND11_MODULE instead.
#if !defined(Py_PYTHON_H) || defined(Py_LIMITED_API)
extern "C" void* PyModule_Create2(rules_torch_kernels::PyModuleDef* definition, int api_version);
#endif

// What the build links: the id, and a name that brings the object with the entry point along (module.cpp).
extern "C" __attribute__((visibility("hidden"))) const char rules_torch_kernels_id[];
extern "C" __attribute__((visibility("hidden"))) const char rules_torch_kernels_module[];

#define RULES_TORCH_KERNELS_LIBRARY_of_given_name(NAME, MODULE) TORCH_LIBRARY(NAME, MODULE)
#define RULES_TORCH_KERNELS_IMPL_of_given_name(NAME, DEVICE, MODULE) TORCH_LIBRARY_IMPL(NAME, DEVICE, MODULE)
#define RULES_TORCH_KERNELS_FRAGMENT_of_given_name(NAME, MODULE) TORCH_LIBRARY_FRAGMENT(NAME, MODULE)

// What those macros of torch 2.4 to 2.15 come to, with the id's address for a namespace. There can be one LIBRARY in a
// file, as with torch's macro, and any number of the others.
#define RULES_TORCH_KERNELS_LIBRARY_of_own_id(NAME, MODULE) \
  RULES_TORCH_KERNELS_REGISTER(DEF, ::std::nullopt, MODULE, of_library)
#define RULES_TORCH_KERNELS_IMPL_of_own_id(NAME, DEVICE, MODULE) \
  RULES_TORCH_KERNELS_REGISTER(IMPL, ::std::make_optional(c10::DispatchKey::DEVICE), MODULE, __COUNTER__)
#define RULES_TORCH_KERNELS_FRAGMENT_of_own_id(NAME, MODULE) \
  RULES_TORCH_KERNELS_REGISTER(FRAGMENT, ::std::nullopt, MODULE, __COUNTER__)
#define RULES_TORCH_KERNELS_REGISTER(KIND, KEY, MODULE, NUMBER) \
  RULES_TORCH_KERNELS_REGISTER_(                                \
      KIND,                                                     \
      KEY,                                                      \
      MODULE,                                                   \
      RULES_TORCH_KERNELS_CONCAT(rules_torch_kernels_init_, NUMBER), \
      RULES_TORCH_KERNELS_CONCAT(rules_torch_kernels_library_, NUMBER))
#define RULES_TORCH_KERNELS_REGISTER_(KIND, KEY, MODULE, INIT, LIBRARY)              \
  static void INIT(torch::Library&);                                                 \
  static const torch::detail::TorchLibraryInit LIBRARY(                              \
      torch::Library::KIND, &INIT, rules_torch_kernels_id, KEY, __FILE__, __LINE__); \
  void INIT(torch::Library& MODULE)

// Defines the entry point of `import NAME`: an empty module, whose import runs the library's static registrations.
// 3 is the version of the stable ABI (PYTHON_ABI_VERSION).
#define REGISTER_EXTENSION(NAME) \
  RULES_TORCH_KERNELS_CHOOSE(RULES_TORCH_KERNELS_MODULE_, RULES_TORCH_KERNELS_IS_##NAME)(NAME)
#define RULES_TORCH_KERNELS_MODULE_of_own_id(NAME)                               \
  namespace rules_torch_kernels {                                          \
  __attribute__((used)) static const char* module = rules_torch_kernels_module; \
  }
#define RULES_TORCH_KERNELS_MODULE_of_given_name(NAME)                                                       \
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

// Helpers that upstream's registration.h has for whoever includes it.
#ifndef _CONCAT
#define _CONCAT(A, B) A##B
#endif
#ifndef CONCAT
#define CONCAT(A, B) RULES_TORCH_KERNELS_CONCAT(A, B)
#endif
#ifndef _STRINGIFY
#define _STRINGIFY(A) #A
#endif
#ifndef STRINGIFY
#define STRINGIFY(A) RULES_TORCH_KERNELS_STRING(A)
#endif
