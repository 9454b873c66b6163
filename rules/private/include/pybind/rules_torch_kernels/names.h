// Other names of pybind11: casts of overloads, exceptions, and what is refused.
#pragma once
#pragma GCC system_header

#include "classes.h"
#include "enums.h"

namespace pybind11 {

template <class... A>
struct overload_cast_of {
  template <class R>
  constexpr auto operator()(R (*function)(A...)) const noexcept {
    return function;
  }
  template <class R, class C>
  constexpr auto operator()(R (C::*function)(A...), std::false_type = {}) const noexcept {
    return function;
  }
  template <class R, class C>
  constexpr auto operator()(R (C::*function)(A...) const, std::true_type) const noexcept {
    return function;
  }
};
template <class... A>
inline constexpr overload_cast_of<A...> overload_cast{};
inline constexpr auto const_ = std::true_type{};

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

template <class T, class... A>
void register_exception(A&&...) {
  static_assert(binding::never<T>, "not supported without Python: py::register_exception");
}
template <class T, class... A>
void print(T&&, A&&...) {
  static_assert(binding::never<T>, "not supported without Python: py::print");
}
template <class T, class... A>
handle bind_vector(A&&...) {
  static_assert(binding::never<T>, "not supported without Python: py::bind_vector");
  return {};
}
template <class T, class... A>
handle bind_map(A&&...) {
  static_assert(binding::never<T>, "not supported without Python: py::bind_map");
  return {};
}

namespace literals {
constexpr arg operator"" _a(const char* name, size_t) {
  return arg(name);
}
}  // namespace literals

}  // namespace pybind11
