// `py::enum_`, whose class the module's Python file makes, and the names around `py::class_`, which is refused.
#pragma once
#pragma GCC system_header

#include "module.h"

namespace pybind11 {

template <class E>
class enum_ {
  static_assert(std::is_enum_v<E>, "not supported without Python: py::enum_ of a type that is no enum");

 public:
  template <class... Extra>
  enum_(module_& scope, const char* name, const Extra&... extra) : definitions_(&scope.definitions()) {
    std::string doc;
    (add(extra, doc), ...);
    place_ = scope.note("enum", {});
    head_ = definitions_->items[place_];
    head_.pop_back();
    head_ += "," + binding::key("name", binding::json_text(name)) + "," + binding::key("doc", binding::json_text(doc)) + "," +
        binding::key("type", binding::json_text(typeid(E).name()));
    write();
  }

  enum_& value(const char* name, E value, const char* doc = nullptr) {
    const auto number = static_cast<std::underlying_type_t<E>>(value);
    values_.push_back(
        "[" + binding::json_text(name) + "," + std::to_string(number) + "," + (doc ? binding::json_text(doc) : "null") + "]");
    write();
    return *this;
  }

  enum_& export_values() {
    exported_ = true;
    write();
    return *this;
  }

  template <class... Extra>
  enum_& def(const char*, const Extra&...) {
    static_assert(binding::never<Extra...>, "not supported without Python: a method of py::enum_");
    return *this;
  }

 private:
  template <class T>
  static void add(const T& extra, std::string& doc) {
    if constexpr (std::is_convertible_v<T, const char*>) {
      doc = extra;
    } else {
      constexpr bool known = std::is_same_v<T, arithmetic> || std::is_same_v<T, module_local>;
      static_assert(known, "not supported without Python: this further argument of `py::enum_`");
    }
  }

  void write() {
    definitions_->items[place_] = head_ + "," + binding::key("exported", exported_ ? "true" : "false") + "," +
        binding::key("values", "[" + binding::joined(values_) + "]") + "}";
  }

  binding::Definitions* definitions_;
  size_t place_ = 0;
  std::string head_;
  std::vector<std::string> values_;
  bool exported_ = false;
};

template <class T, class... Options>
class class_ : public handle {
 public:
  template <class Scope, class... Extra>
  class_(Scope&, const char*, const Extra&...) {
    static_assert(binding::never<Scope>, "not supported without Python: py::class_");
  }
#define RULES_TORCH_KERNELS_METHOD(NAME) \
  template <class... A>                  \
  class_& NAME(A&&...) {                 \
    return *this;                        \
  }
  RULES_TORCH_KERNELS_METHOD(def)
  RULES_TORCH_KERNELS_METHOD(def_buffer)
  RULES_TORCH_KERNELS_METHOD(def_property)
  RULES_TORCH_KERNELS_METHOD(def_property_readonly)
  RULES_TORCH_KERNELS_METHOD(def_property_readonly_static)
  RULES_TORCH_KERNELS_METHOD(def_property_static)
  RULES_TORCH_KERNELS_METHOD(def_readonly)
  RULES_TORCH_KERNELS_METHOD(def_readonly_static)
  RULES_TORCH_KERNELS_METHOD(def_readwrite)
  RULES_TORCH_KERNELS_METHOD(def_readwrite_static)
  RULES_TORCH_KERNELS_METHOD(def_static)
#undef RULES_TORCH_KERNELS_METHOD
};

// What is written inside of a `py::class_`: of no effect, so that the class is the one error.
struct dynamic_attr {};
struct buffer_protocol {};
struct is_method {};
struct multiple_inheritance {};
template <class... A>
struct init_of {};
template <class... A>
init_of<A...> init() {
  return {};
}
template <class Factory>
init_of<Factory> init(Factory&&) {
  return {};
}
template <class Get, class Set>
init_of<Get, Set> pickle(Get&&, Set&&) {
  return {};
}

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
