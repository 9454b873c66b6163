// Exceptions of the author's, as exceptions of the module.
#pragma once
#pragma GCC system_header

#include <c10/util/Exception.h>

#include <exception>

#include "text.h"

namespace rules_torch_kernels {
namespace binding {

class Exceptions {
 public:
  // What throws an exception of C++ again and, if it is of a registered type, returns true and what it says.
  using Match = bool (*)(std::string& what);

  // The number of a class that is registered.
  static size_t add(Match match);

  // Throws, in place of the exception that is handled, one with a mark and the number of its class, which the module's
  // Python file makes the exception of; returns for exceptions of other types.
  static void translate();

  template <class E>
  static bool match(std::string& what) {
    try {
      throw;
    } catch (const E& problem) {
      what = problem.what();
      return true;
    } catch (...) {
      return false;
    }
  }
};

}  // namespace binding
}  // namespace rules_torch_kernels

// The names of Python's exceptions, for sources that name the base of their own.
#ifndef Py_PYTHON_H
struct RulesTorchKernelsException {
  const char* name;
};
#define RULES_TORCH_KERNELS_EXCEPTION(NAME) inline constexpr RulesTorchKernelsException PyExc_##NAME{#NAME};
RULES_TORCH_KERNELS_EXCEPTION(ArithmeticError)
RULES_TORCH_KERNELS_EXCEPTION(Exception)
RULES_TORCH_KERNELS_EXCEPTION(IndexError)
RULES_TORCH_KERNELS_EXCEPTION(KeyError)
RULES_TORCH_KERNELS_EXCEPTION(MemoryError)
RULES_TORCH_KERNELS_EXCEPTION(NotImplementedError)
RULES_TORCH_KERNELS_EXCEPTION(OSError)
RULES_TORCH_KERNELS_EXCEPTION(RuntimeError)
RULES_TORCH_KERNELS_EXCEPTION(TypeError)
RULES_TORCH_KERNELS_EXCEPTION(ValueError)
#undef RULES_TORCH_KERNELS_EXCEPTION
#endif

namespace pybind11 {

// Exceptions that a function may throw: torch hands these on as the exceptions of Python with their names.
struct value_error : std::invalid_argument {
  explicit value_error(const std::string& what = "") : std::invalid_argument(what) {}
};
struct index_error : std::out_of_range {
  explicit index_error(const std::string& what = "") : std::out_of_range(what) {}
};
struct type_error : c10::TypeError {
  explicit type_error(const std::string& what = "") : c10::TypeError({__func__, __FILE__, __LINE__}, what) {}
};

}  // namespace pybind11
