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
#include <cstdio>
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

inline std::string json_text(std::string_view text) {
  std::string spelled = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == '"' || byte == '\\') {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", byte);
      spelled += escape;
    } else {
      spelled += c;
    }
  }
  return spelled + '"';
}

inline std::string joined(const std::vector<std::string>& texts) {
  std::string text;
  for (const auto& part : texts) {
    text += (text.empty() ? "" : ",") + part;
  }
  return text;
}

// What a type is called between C++ and Python. Types of the same name in anonymous namespaces have different addresses.
template <class T>
std::string type_key() {
  static char mark = 0;
  return std::string(typeid(T).name()) + "@" + std::to_string(reinterpret_cast<uintptr_t>(&mark));
}

// An object with one key, which says what its value stands for.
inline std::string tagged(const char* tag, const std::string& value) {
  return "{\"" + std::string(tag) + "\":" + value + "}";
}

inline std::string real(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "Infinity" : "-Infinity";
  }
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  const std::string spelled = text;
  return spelled.find_first_of(".e") == std::string::npos ? spelled + ".0" : spelled;
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
    return tagged("enum", "[" + json_text(type_key<T>()) + "," + std::to_string(number) + "]");
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
      return tagged("complex", "[" + real(number.real()) + "," + real(number.imag()) + "]");
    }
    return value.isFloatingPoint() ? real(value.toDouble()) : std::to_string(value.toLong());
  }
};

template <class T>
struct Written<std::complex<T>> {
  static std::string write(const std::complex<T>& value) {
    return tagged("complex", "[" + real(value.real()) + "," + real(value.imag()) + "]");
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
  std::vector<std::string> texts;
  for (const auto& item : items) {
    texts.push_back(written<typename Items::value_type>(item));
  }
  return "[" + joined(texts) + "]";
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
    return tagged("tuple", std::apply([](const auto&... item) { return "[" + joined({written(item)...}) + "]"; }, value));
  }
};

template <class First, class Second>
struct Written<std::pair<First, Second>, std::enable_if_t<is_written<First>::value && is_written<Second>::value>> {
  static std::string write(const std::pair<First, Second>& value) {
    return tagged("tuple", "[" + written(value.first) + "," + written(value.second) + "]");
  }
};

template <class T>
struct Written<std::map<std::string, T>, std::enable_if_t<is_written<T>::value>> {
  static std::string write(const std::map<std::string, T>& value) {
    std::vector<std::string> texts;
    for (const auto& [key, item] : value) {
      texts.push_back(json_text(key) + ":" + written(item));
    }
    return tagged("dict", "{" + joined(texts) + "}");
  }
};

}  // namespace binding
}  // namespace rules_torch_kernels
