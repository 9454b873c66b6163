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
    note("module", {binding::key("name", binding::json_text(name)), binding::key("doc", doc ? binding::json_text(doc) : "null")});
    return {definitions(), path_of(name)};
  }

  // `m.doc() = "..."`.
  std::string& doc() {
    return definitions().doc;
  }

  template <class T = void>
  static module_ import(const char*) {
    static_assert(binding::never<T>, "not supported without Python: py::module_::import" RULES_TORCH_KERNELS_REAL);
  }
};

using module = module_;

}  // namespace pybind11
