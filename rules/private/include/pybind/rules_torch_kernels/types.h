// The types of arguments and results: how each travels through torch's dispatcher, and what Python is told of it.
#pragma once
#pragma GCC system_header

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Stream.h>
#include <c10/util/complex.h>
#if __has_include(<c10/util/string_view.h>)
#include <c10/util/string_view.h>
#endif

#include <limits>

#include "object_types.h"

namespace rules_torch_kernels {
namespace binding {

// What is known of a type; nothing of those that are not supported.
//
//   held        what lives as long as the call: the type itself, or what it refers to
//   describe()  the type in JSON, for the module's Python file
//   wire()      the type in the schema of the op
//   load(value) what is held, of a value of the dispatcher
//   store(...)  the value of the dispatcher, of a result
//   view(held)  the argument, if its type is not what is held
template <class T, class = void>
struct Type;

template <class T, class = void>
inline constexpr bool is_supported = false;
template <class T>
inline constexpr bool is_supported<T, std::void_t<typename Type<bare<T>>::held>> = true;

// Whether a value of a type can be an element of others: what is held is the value, or can be copied to one.
template <class T, class = void>
inline constexpr bool is_plain = false;
template <class T>
inline constexpr bool is_plain<T, std::enable_if_t<is_supported<T>>> =
    is_object<bare<T>> || std::is_same_v<typename Type<bare<T>>::held, bare<T>>;

// The description of a type with parameters, each in JSON.
template <class... Parameter>
std::string generic(const char* name, const Parameter&... parameter) {
  Json list;
  list.text_item(name);
  (list.item(parameter), ...);
  return list.list();
}

template <class T>
struct Type<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>>> {
  static_assert(
      !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>,
      RULES_TORCH_KERNELS_REFUSED("a wide character"));
  using held = T;
  static std::string describe() {
    return json_text((std::is_signed_v<T> ? "int" : "uint") + std::to_string(8 * sizeof(T)));
  }
  static c10::TypePtr wire() {
    return c10::IntType::get();
  }
  static T load(const c10::IValue& value) {
    const int64_t number = value.toInt();
    // An unsigned integer of 64 bits travels as the signed one with the same bits.
    if constexpr (sizeof(T) < sizeof(int64_t)) {
      TORCH_CHECK(
          number >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
              number <= static_cast<int64_t>(std::numeric_limits<T>::max()),
          number,
          " is out of the range of an argument of the binding");
    }
    return static_cast<T>(number);
  }
  static c10::IValue store(T value) {
    return static_cast<int64_t>(value);
  }
};

template <>
struct Type<bool> {
  using held = bool;
  static std::string describe() {
    return json_text("bool");
  }
  static c10::TypePtr wire() {
    return c10::BoolType::get();
  }
  static bool load(const c10::IValue& value) {
    return value.toBool();
  }
  static c10::IValue store(bool value) {
    return value;
  }
};

template <class T>
struct Type<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  using held = T;
  static std::string describe() {
    return json_text("float");
  }
  static c10::TypePtr wire() {
    return c10::FloatType::get();
  }
  static T load(const c10::IValue& value) {
    return static_cast<T>(value.toDouble());
  }
  static c10::IValue store(T value) {
    return static_cast<double>(value);
  }
};

template <class T>
struct Type<T, std::enable_if_t<std::is_enum_v<T> && !is_of_torch<T>>> {
  using held = T;
  static std::string describe() {
    return generic("enum", json_text(type_key<T>()));
  }
  static c10::TypePtr wire() {
    return c10::IntType::get();
  }
  static T load(const c10::IValue& value) {
    return static_cast<T>(value.toInt());
  }
  static c10::IValue store(T value) {
    return static_cast<int64_t>(value);
  }
};

// A dtype comes back by its name: its number is torch's own affair.
template <>
struct Type<c10::ScalarType> {
  using held = c10::ScalarType;
  static std::string describe() {
    return json_text("dtype");
  }
  static c10::TypePtr wire() {
    return c10::ScalarTypeType::get();
  }
  static c10::TypePtr returned() {
    return c10::StringType::get();
  }
  static c10::ScalarType load(const c10::IValue& value) {
    return value.toScalarType();
  }
  static c10::IValue store(c10::ScalarType value) {
    return std::string(c10::toString(value));
  }
};

template <>
struct Type<c10::Layout> {
  using held = c10::Layout;
  static std::string describe() {
    return json_text("layout");
  }
  static c10::TypePtr wire() {
    return c10::LayoutType::get();
  }
  static c10::TypePtr returned() {
    return c10::IntType::get();
  }
  static c10::Layout load(const c10::IValue& value) {
    return value.toLayout();
  }
  static c10::IValue store(c10::Layout value) {
    return static_cast<int64_t>(value);
  }
};

template <>
struct Type<c10::MemoryFormat> {
  using held = c10::MemoryFormat;
  static std::string describe() {
    return json_text("memory_format");
  }
  static c10::TypePtr wire() {
    return c10::MemoryFormatType::get();
  }
  static c10::TypePtr returned() {
    return c10::IntType::get();
  }
  static c10::MemoryFormat load(const c10::IValue& value) {
    return value.toMemoryFormat();
  }
  static c10::IValue store(c10::MemoryFormat value) {
    return static_cast<int64_t>(value);
  }
};

#define RULES_TORCH_KERNELS_TYPE(TYPE, NAME, WIRE, LOAD)  \
  template <>                                             \
  struct Type<TYPE> {                                     \
    using held = TYPE;                                    \
    static std::string describe() {                       \
      return json_text(NAME);                                \
    }                                                     \
    static c10::TypePtr wire() {                          \
      return c10::WIRE::get();                            \
    }                                                     \
    static TYPE load(const c10::IValue& value) {          \
      return value.LOAD();                                \
    }                                                     \
    static c10::IValue store(const TYPE& value) {         \
      return c10::IValue(value);                          \
    }                                                     \
  };
RULES_TORCH_KERNELS_TYPE(at::Tensor, "tensor", TensorType, toTensor)
RULES_TORCH_KERNELS_TYPE(c10::Scalar, "scalar", NumberType, toScalar)
RULES_TORCH_KERNELS_TYPE(c10::Device, "device", DeviceObjType, toDevice)
RULES_TORCH_KERNELS_TYPE(at::Generator, "generator", GeneratorType, toGenerator)
RULES_TORCH_KERNELS_TYPE(c10::Stream, "stream", StreamObjType, toStream)
RULES_TORCH_KERNELS_TYPE(std::string, "str", StringType, toStringRef)
#undef RULES_TORCH_KERNELS_TYPE

template <class T>
struct Complex {
  using held = T;
  static std::string describe() {
    return json_text("complex");
  }
  static c10::TypePtr wire() {
    return c10::ComplexType::get();
  }
  static T load(const c10::IValue& value) {
    const auto number = value.toComplexDouble();
    using Part = typename T::value_type;
    return T(static_cast<Part>(number.real()), static_cast<Part>(number.imag()));
  }
  static c10::IValue store(const T& value) {
    return c10::complex<double>(value.real(), value.imag());
  }
};
template <class T>
struct Type<std::complex<T>> : Complex<std::complex<T>> {};
template <class T>
struct Type<c10::complex<T>> : Complex<c10::complex<T>> {};

template <>
struct Type<char> {
  using held = char;
  static std::string describe() {
    return json_text("char");
  }
  static c10::TypePtr wire() {
    return c10::StringType::get();
  }
  static char load(const c10::IValue& value) {
    const std::string& text = value.toStringRef();
    TORCH_CHECK(text.size() == 1, "an argument of the binding is one character, not `", text, "`");
    return text[0];
  }
  // A text of Python has the character of the same number, as with pybind11: torch reads UTF-8.
  static c10::IValue store(char value) {
    const auto code = static_cast<unsigned char>(value);
    if (code < 0x80) {
      return std::string(1, value);
    }
    return std::string{static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
  }
};

template <>
struct Type<const char*> {
  using held = std::optional<std::string>;
  static std::string describe() {
    return json_text("c_str");
  }
  static c10::TypePtr wire() {
    return c10::OptionalType::create(c10::StringType::get());
  }
  static held load(const c10::IValue& value) {
    return value.isNone() ? std::nullopt : held(value.toStringRef());
  }
  static c10::IValue store(const char* value) {
    return value == nullptr ? c10::IValue() : c10::IValue(std::string(value));
  }
  static const char* view(held& text) {
    return text ? text->c_str() : nullptr;
  }
};

template <class T>
inline constexpr bool is_string_view = std::is_same_v<T, std::string_view>
#if __has_include(<c10/util/string_view.h>)
    || std::is_same_v<T, c10::string_view>
#endif
    ;

template <class T>
struct Type<T, std::enable_if_t<is_string_view<T>>> : Type<std::string> {
  static c10::IValue store(T value) {
    return std::string(value.data(), value.size());
  }
  static T view(std::string& text) {
    return T(text.data(), text.size());
  }
};

}  // namespace binding
}  // namespace rules_torch_kernels
