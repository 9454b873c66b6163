// Values of C++ as JSON: defaults of arguments and attributes of a module, which are Python values without a Python.
#pragma once
#pragma GCC system_header

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "json.h"

namespace rules_torch_kernels {
namespace binding {

template <class T>
using bare = std::remove_cv_t<std::remove_reference_t<T>>;

// The error for what cannot be bound.
#define RULES_TORCH_KERNELS_REFUSED(WHAT) \
  "not supported without Python: " WHAT "; `--binding pybind` builds the module with pybind11 itself, once for each Python"

// False, but not before a template has its arguments.
template <class...>
inline constexpr bool never = false;

// What a type is called between C++ and Python. Types of the same name in anonymous namespaces have different addresses.
template <class T>
std::string type_key() {
  static char mark = 0;
  return std::string(typeid(T).name()) + "@" + std::to_string(reinterpret_cast<uintptr_t>(&mark));
}

// A Python value that has no type of its own in C++: what `py::int_(1)`, `py::str("a")`, `py::none()` are.
struct Value {
  std::string json;
};

// How a value of a type is written; without `write` for types that cannot be.
template <class T, class = void>
struct Written {};

template <class T, class = void>
struct is_written : std::false_type {};
template <class T>
struct is_written<T, std::void_t<decltype(&Written<bare<T>>::write)>> : std::true_type {};

template <class T>
std::string written(const T& value) {
  static_assert(
      is_written<T>::value,
      RULES_TORCH_KERNELS_REFUSED("a value of this type as the default of an argument or as an attribute of a module"));
  if constexpr (is_written<T>::value) {
    return Written<bare<T>>::write(value);
  } else {
    return {};
  }
}

template <class T>
inline constexpr bool is_of_torch = std::is_same_v<T, c10::ScalarType> || std::is_same_v<T, c10::Layout> ||
    std::is_same_v<T, c10::MemoryFormat>;

template <class T>
struct Written<T, std::enable_if_t<std::is_integral_v<T>>> {
  static std::string write(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_same_v<T, char>) {
      return json_text(std::string(1, value));
    } else {
      return std::to_string(value);
    }
  }
};

template <class T>
struct Written<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static std::string write(T value) {
    return real(static_cast<double>(value));
  }
};

template <class T>
struct Written<T, std::enable_if_t<std::is_enum_v<T> && !is_of_torch<T>>> {
  static std::string write(T value) {
    const auto number = static_cast<std::underlying_type_t<T>>(value);
    return tagged("enum", Json().text_item(type_key<T>()).item(std::to_string(number)).list());
  }
};

template <class T>
struct Written<T, std::enable_if_t<is_of_torch<T>>> {
  static std::string write(T value) {
    if constexpr (std::is_same_v<T, c10::ScalarType>) {
      return tagged("dtype", json_text(c10::toString(value)));
    } else {
      const char* tag = std::is_same_v<T, c10::Layout> ? "layout" : "memory_format";
      return tagged(tag, std::to_string(static_cast<int>(value)));
    }
  }
};

template <class T>
struct Written<T, std::enable_if_t<!std::is_same_v<T, std::nullptr_t> && std::is_convertible_v<T, std::string_view>>> {
  static std::string write(std::string_view value) {
    return json_text(value);
  }
};

template <>
struct Written<std::nullptr_t> {
  static std::string write(std::nullptr_t) {
    return "null";
  }
};

template <>
struct Written<std::nullopt_t> {
  static std::string write(std::nullopt_t) {
    return "null";
  }
};

template <class T>
struct Written<T, std::enable_if_t<std::is_base_of_v<Value, T>>> {
  static std::string write(const Value& value) {
    return value.json;
  }
};

template <>
struct Written<c10::Device> {
  static std::string write(c10::Device value) {
    return tagged("device", json_text(value.str()));
  }
};

template <>
struct Written<c10::Scalar> {
  static std::string write(const c10::Scalar& value) {
    if (value.isBoolean()) {
      return value.toBool() ? "true" : "false";
    }
    if (value.isComplex()) {
      const auto number = value.toComplexDouble();
      return tagged("complex", Json().item(real(number.real())).item(real(number.imag())).list());
    }
    return value.isFloatingPoint() ? real(value.toDouble()) : std::to_string(value.toLong());
  }
};

template <class T>
struct Written<std::complex<T>> {
  static std::string write(const std::complex<T>& value) {
    return tagged("complex", Json().item(real(value.real())).item(real(value.imag())).list());
  }
};

template <>
struct Written<at::Tensor> {
  static std::string write(const at::Tensor& value) {
    if (value.defined()) {
      throw std::runtime_error(RULES_TORCH_KERNELS_REFUSED("a tensor as the default of an argument or as an attribute"));
    }
    return "null";
  }
};

template <class T>
struct Written<std::optional<T>, std::enable_if_t<is_written<T>::value>> {
  static std::string write(const std::optional<T>& value) {
    return value ? written(*value) : "null";
  }
};

template <class Items>
std::string written_list(const Items& items) {
  Json list;
  for (const auto& item : items) {
    list.item(written<typename Items::value_type>(item));
  }
  return list.list();
}

template <class T, class Allocator>
struct Written<std::vector<T, Allocator>, std::enable_if_t<is_written<T>::value>> {
  static std::string write(const std::vector<T, Allocator>& value) {
    return written_list(value);
  }
};

template <class T, size_t N>
struct Written<std::array<T, N>, std::enable_if_t<is_written<T>::value>> {
  static std::string write(const std::array<T, N>& value) {
    return written_list(value);
  }
};

template <class T>
struct Written<c10::ArrayRef<T>, std::enable_if_t<is_written<T>::value>> {
  static std::string write(c10::ArrayRef<T> value) {
    return tagged("tuple", written_list(value));
  }
};

template <class... T>
struct Written<std::tuple<T...>, std::enable_if_t<(is_written<T>::value && ...)>> {
  static std::string write(const std::tuple<T...>& value) {
    Json list;
    std::apply([&list](const auto&... item) { (list.item(written(item)), ...); }, value);
    return tagged("tuple", list.list());
  }
};

template <class First, class Second>
struct Written<std::pair<First, Second>, std::enable_if_t<is_written<First>::value && is_written<Second>::value>> {
  static std::string write(const std::pair<First, Second>& value) {
    return tagged("tuple", Json().item(written(value.first)).item(written(value.second)).list());
  }
};

template <class T>
struct Written<std::map<std::string, T>, std::enable_if_t<is_written<T>::value>> {
  static std::string write(const std::map<std::string, T>& value) {
    Json keys;
    for (const auto& [key, item] : value) {
      keys.key(key, written(item));
    }
    return tagged("dict", keys.object());
  }
};

}  // namespace binding
}  // namespace rules_torch_kernels
