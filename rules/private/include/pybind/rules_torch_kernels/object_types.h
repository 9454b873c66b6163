// Which types can have a `py::class_`.
#pragma once
#pragma GCC system_header

#include "python_types.h"

// The name of a type, as the compiler writes it. It is in no namespace, since gcc leaves that of the function out.
template <class T>
constexpr std::string_view rules_torch_kernels_type_text() {
  std::string_view text = __PRETTY_FUNCTION__;
  // `[T = Name]`, `[with T = Name; ...]`, and in nvcc's front end `[with T=Name]`.
  text.remove_prefix(text.find('=', text.find('[')) + 1);
  return text.front() == ' ' ? text.substr(1) : text;
}

namespace rules_torch_kernels {
namespace binding {

constexpr bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// Types of others, which pybind11 and torch convert, and which are no classes of the module.
template <class T>
constexpr bool is_of_others() {
  constexpr std::string_view text = rules_torch_kernels_type_text<T>();
  return starts_with(text, "std::") || starts_with(text, "c10::") || starts_with(text, "at::") ||
      starts_with(text, "Eigen::") || starts_with(text, "pybind11::") || starts_with(text, "rules_torch_kernels::");
}

template <class T, class = void>
inline constexpr bool is_complete = false;
template <class T>
inline constexpr bool is_complete<T, std::void_t<decltype(sizeof(T))>> = true;

// A type that can have a `py::class_`: not one that the author has a conversion of their own for.
template <class T>
constexpr bool may_be_object() {
  if constexpr (!std::is_class_v<T> && !std::is_union_v<T>) {
    return false;
  } else if constexpr (!is_complete<T> || is_of_others<T>()) {
    return false;
  } else if constexpr (std::is_base_of_v<pybind11::handle, T>) {
    return false;
  } else {
    return !is_complete<pybind11::detail::type_caster<T>>;
  }
}
template <class T>
inline constexpr bool is_object = may_be_object<T>();

}  // namespace binding
}  // namespace rules_torch_kernels
