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
    head_.text("kind", "enum").text("scope", scope.path()).text("name", name).text("doc", doc);
    head_.text("type", binding::type_key<E>());
    head_.text("numbers", (std::is_signed_v<Underlying> ? "int" : "uint") + std::to_string(8 * sizeof(Underlying)));
    head_.flag("arithmetic", has_numbers).flag("convertible", std::is_convertible_v<E, Underlying>);
    place_ = this->definitions().items.size();
    this->definitions().items.emplace_back();
    write();
  }

  enum_& value(const char* name, E value, const char* doc = nullptr) {
    const auto number = static_cast<Underlying>(value);
    binding::Json item;
    item.text_item(name).item(std::to_string(number)).item(doc == nullptr ? "null" : binding::json_text(doc));
    values_.item(item.list());
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
    binding::Json keys = head_;
    this->definitions().items[place_] = keys.flag("exported", exported_).key("values", values_.list()).object();
  }

  size_t place_ = 0;
  binding::Json head_;
  binding::Json values_;
  bool exported_ = false;
};

}  // namespace pybind11
