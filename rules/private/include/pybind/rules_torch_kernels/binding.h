// PYBIND11_MODULE without Python. The functions of a module become ops of torch when the module's Python file asks for
// them, in a namespace that no other library has; the file makes Python functions of what it is told (_binding.py.template).
// What is no template is in binding.cpp, which is compiled once for a release of torch and linked to each module: that takes
// two thirds of the time off a small module.
#pragma once
#pragma GCC system_header

// For a GPU, with fewer of torch's headers, a source that names nothing of a binding does without: see needed.bzl.
#if defined(__CUDA_ARCH__) && defined(TORCH_KERNELS_NEEDED) && !defined(TORCH_KERNELS_LIBRARY)
namespace pybind11 {}
namespace py = pybind11;
#else

#include "names.h"

namespace rules_torch_kernels {
namespace binding {

// Issues the warnings of a call that has ended, in JSON; `failed` says whether an exception ended it. Returns 0, or the
// number under which an exception is kept that a warning has become.
using Issue = int64_t (*)(const char* warnings, int failed);

// What the module's Python file gives the exported function: the dotted name of the module, what issues its warnings, and
// the object with the exceptions that these have become. The last two are those of the first file that loads a library.
struct Loading {
  const char* module;
  Issue issue;
  int64_t python;
};

// What the exported function of a module returns: JSON, or `!` and what is wrong.
const char* bound(const char* name, const Loading& loading, void (*define)(pybind11::module_&));

}  // namespace binding
}  // namespace rules_torch_kernels

namespace py = pybind11;

#define RULES_TORCH_KERNELS_BINDING_CONCAT_(A, B) A##B
#define RULES_TORCH_KERNELS_BINDING_CONCAT(A, B) RULES_TORCH_KERNELS_BINDING_CONCAT_(A, B)
#define RULES_TORCH_KERNELS_BINDING_STRING_(A) #A
#define RULES_TORCH_KERNELS_BINDING_STRING(A) RULES_TORCH_KERNELS_BINDING_STRING_(A)

// The name of the exported function has the module's name in it, as that of Python's PyInit function has.
#define PYBIND11_MODULE(NAME, MODULE, ...)                                                                         \
  static void RULES_TORCH_KERNELS_BINDING_CONCAT(rules_torch_kernels_define_, NAME)(::pybind11::module_&);         \
  extern "C" __attribute__((visibility("default"))) const char* RULES_TORCH_KERNELS_BINDING_CONCAT(                \
      rules_torch_kernels_binding_,                                                                                \
      NAME)(const char* module, ::rules_torch_kernels::binding::Issue issue, int64_t python) {                     \
    return ::rules_torch_kernels::binding::bound(                                                                  \
        RULES_TORCH_KERNELS_BINDING_STRING(NAME),                                                                  \
        {module, issue, python},                                                                                   \
        &RULES_TORCH_KERNELS_BINDING_CONCAT(rules_torch_kernels_define_, NAME));                                   \
  }                                                                                                                \
  static void RULES_TORCH_KERNELS_BINDING_CONCAT(rules_torch_kernels_define_, NAME)(                               \
      [[maybe_unused]] ::pybind11::module_ & MODULE)

#define PYBIND11_OVERLOAD_CAST(...) ::pybind11::overload_cast<__VA_ARGS__>
#define PYBIND11_MAKE_OPAQUE(...) static_assert(false, RULES_TORCH_KERNELS_REFUSED("PYBIND11_MAKE_OPAQUE"))
#define PYBIND11_DECLARE_HOLDER_TYPE(...) static_assert(true, "")
#define PYBIND11_OVERRIDE(...) static_assert(false, RULES_TORCH_KERNELS_REFUSED("PYBIND11_OVERRIDE"))
#define PYBIND11_OVERRIDE_PURE(...) static_assert(false, RULES_TORCH_KERNELS_REFUSED("PYBIND11_OVERRIDE_PURE"))
#define PYBIND11_OVERRIDE_NAME(...) static_assert(false, RULES_TORCH_KERNELS_REFUSED("PYBIND11_OVERRIDE_NAME"))
#define PYBIND11_OVERRIDE_PURE_NAME(...) static_assert(false, RULES_TORCH_KERNELS_REFUSED("PYBIND11_OVERRIDE_PURE_NAME"))
#define PYBIND11_EXPORT __attribute__((visibility("default")))
#define PYBIND11_NAMESPACE pybind11
#define PYBIND11_STRINGIFY(A) #A
#define PYBIND11_TOSTRING(A) PYBIND11_STRINGIFY(A)

#endif
