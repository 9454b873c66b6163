// `py::enum_`, whose class the module's Python file makes.
#pragma once
#pragma GCC system_header

#include "methods.h"

namespace pybind11 {

template <class E>
class enum_ : public binding::Methods<enum_<E>, E> {
  static_assert(std::is_enum_v<E>, RULES_TORCH_KERNELS_REFUSED("py::enum_ of a type that is no enum"));
  using Base = binding::Methods<enum_<E>, E>;
  using Underlying = std::underlying_type_t<E>;

 public:
  template <class... Extra>
  enum_(const binding::Scope& scope, const char* name, const Extra&... extra)
      : Base(scope.definitions(), scope.path_of(name)) {
    std::string doc;
    bool has_numbers = false;
    (add_extra(extra, doc, has_numbers), ...);
    place_ = scope.note("enum", {});
    head_ = scope.definitions().items[place_];
    head_.pop_back();
    const std::string bits = std::to_string(8 * sizeof(Underlying));
    head_ += "," +
        binding::joined(
            {binding::key("name", binding::json_text(name)), binding::key("doc", binding::json_text(doc)),
             binding::key("type", binding::json_text(binding::type_key<E>())),
             binding::key("numbers", binding::json_text((std::is_signed_v<Underlying> ? "int" : "uint") + bits)),
             binding::key("arithmetic", has_numbers ? "true" : "false"),
             binding::key("convertible", std::is_convertible_v<E, Underlying> ? "true" : "false")});
    write();
  }

  enum_& value(const char* name, E value, const char* doc = nullptr) {
    const auto number = static_cast<Underlying>(value);
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

 private:
  template <class T>
  static void add_extra(const T& extra, std::string& doc, bool& has_numbers) {
    if constexpr (std::is_convertible_v<T, const char*>) {
      doc = extra;
    } else if constexpr (std::is_same_v<T, arithmetic>) {
      has_numbers = true;
    } else {
      static_assert(
          std::is_same_v<T, module_local>,
          RULES_TORCH_KERNELS_REFUSED("this further argument of `py::enum_`"));
    }
  }

  void write() {
    this->definitions().items[place_] = head_ + "," + binding::key("exported", exported_ ? "true" : "false") + "," +
        binding::key("values", "[" + binding::joined(values_) + "]") + "}";
  }

  size_t place_ = 0;
  std::string head_;
  std::vector<std::string> values_;
  bool exported_ = false;
};

}  // namespace pybind11
