// `py::module_`, what stands in PYBIND11_MODULE.
#pragma once
#pragma GCC system_header

#include "scope.h"

namespace pybind11 {

class module_ : public binding::Scope {
 public:
  using Scope::Scope;

  template <class F, class... Extra>
  module_& def(const char* name, F&& function, const Extra&... extra) {
    add<binding::How::function>(name, std::forward<F>(function), extra...);
    return *this;
  }

  template <class T>
  module_& add_object(const char* name, const T& value, bool = false) {
    attr(name) = value;
    return *this;
  }

  module_ def_submodule(const char* name, const char* doc = nullptr) {
    note("module", binding::Json().text("name", name).text("doc", doc));
    return {definitions(), path_of(name)};
  }

  // `m.doc() = "..."`.
  std::string& doc() {
    return definitions().doc;
  }

  template <class T = void>
  static module_ import(const char*) {
    static_assert(binding::never<T>, RULES_TORCH_KERNELS_REFUSED("py::module_::import"));
  }
};

using module = module_;

// An exception of C++ as one of the module's.
template <class E, class... Base>
void register_exception(const binding::Scope& scope, const char* name, [[maybe_unused]] const Base&... base) {
  static_assert(sizeof...(Base) <= 1, "py::register_exception has a scope, a name and a base");
#ifndef Py_PYTHON_H
  static_assert(
      (std::is_same_v<Base, RulesTorchKernelsException> && ...),
      RULES_TORCH_KERNELS_REFUSED("the base of py::register_exception, if it is none of Python's own"));
  std::string base_name = "Exception";
  ((base_name = base.name), ...);
#else
  static_assert(sizeof...(Base) == 0, RULES_TORCH_KERNELS_REFUSED("a base of py::register_exception beside Python.h"));
  const std::string base_name = "Exception";
#endif
  const size_t number = binding::Exceptions::add(&binding::Exceptions::match<E>);
  scope.note("exception", binding::Json().text("name", name).number("number", number).text("base", base_name));
}
template <class E, class... Base>
void register_local_exception(const binding::Scope& scope, const char* name, const Base&... base) {
  register_exception<E>(scope, name, base...);
}

}  // namespace pybind11
