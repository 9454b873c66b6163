// What `py::class_` and `py::enum_` have in common: methods, static methods and attributes that functions answer for.
#pragma once
#pragma GCC system_header

#include "module.h"

namespace pybind11 {

struct buffer_protocol {};
struct dynamic_attr {};
struct is_final {};
struct multiple_inheritance {};
struct smart_holder {};
struct nodelete {
  template <class T>
  void operator()(T*) const {}
};

// Constructors, as `def` is given them.
template <class... A>
struct init_of {};
template <class F>
struct factory_of {
  F make;
};
template <class Get, class Set>
struct pickle_of {
  Get get;
  Set set;
};
template <class... A>
init_of<A...> init() {
  return {};
}
template <class F>
factory_of<std::decay_t<F>> init(F&& make) {
  return {std::forward<F>(make)};
}
template <class F, class Alias>
init_of<> init(F&&, Alias&&) {
  static_assert(binding::never<F>, RULES_TORCH_KERNELS_REFUSED("py::init with a second factory"));
  return {};
}
template <class... A>
init_of<> init_alias() {
  static_assert(binding::never<A...>, RULES_TORCH_KERNELS_REFUSED("py::init_alias"));
  return {};
}
template <class Get, class Set>
pickle_of<std::decay_t<Get>, std::decay_t<Set>> pickle(Get&& get, Set&& set) {
  return {std::forward<Get>(get), std::forward<Set>(set)};
}

}  // namespace pybind11

namespace rules_torch_kernels {
namespace binding {

// A member function as a function of an object of T, which may be of a class derived from the member's.
template <class T, class F, class R, class... A>
auto method_of(F function, Called<R(A...)>*) {
  return [function](T& self, A... arguments) -> R { return (self.*function)(std::forward<A>(arguments)...); };
}
template <class T, class F>
decltype(auto) as_method(F&& function) {
  if constexpr (std::is_member_function_pointer_v<std::decay_t<F>>) {
    using Signature = typename Called<std::decay_t<F>>::signature;
    return method_of<T>(function, static_cast<Called<Signature>*>(nullptr));
  } else {
    return std::forward<F>(function);
  }
}

// A function that makes an object, as one whose result is new to Python.
template <class T, class F, class R, class... A>
auto constructor_of(F make, Called<R(A...)>*) {
  return [make](A... arguments) mutable -> Fresh<T> { return Fresh<T>::of(make(std::forward<A>(arguments)...)); };
}
template <class T, class F>
auto as_constructor(F make) {
  using Signature = typename SignatureOf<F>::signature;
  return constructor_of<T>(std::move(make), static_cast<Called<Signature>*>(nullptr));
}

// The getter of a static attribute is given the class, of which it can want nothing here.
template <class F, class R, class First, class... A>
auto without_class(F function, Called<R(First, A...)>*) {
  static_assert(
      std::is_same_v<bare<First>, pybind11::object> || std::is_same_v<bare<First>, pybind11::handle>,
      "the first argument of the getter or the setter of a static attribute is a py::object");
  return [function](A... arguments) mutable -> R { return function(bare<First>(), std::forward<A>(arguments)...); };
}
template <class F>
auto as_static(F function) {
  return without_class(function, static_cast<Called<typename SignatureOf<F>::signature>*>(nullptr));
}

template <class Derived, class T>
class Methods : public Scope {
 public:
  template <class F, class... Extra>
  Derived& def(const char* name, F&& function, const Extra&... extra) {
    if (std::string_view(name) == "__init__" || std::string_view(name) == "__setstate__") {
      throw std::runtime_error(std::string("a constructor without py::init or py::pickle: `def(\"") + name + "\", ...)`");
    }
    add<How::method>(name, as_method<T>(std::forward<F>(function)), extra...);
    return self();
  }

  template <class F, class... Extra>
  Derived& def_static(const char* name, F&& function, const Extra&... extra) {
    add<How::static_>(name, std::forward<F>(function), extra...);
    return self();
  }

  template <class Get, class... Extra>
  Derived& def_property_readonly(const char* name, Get&& get, const Extra&... extra) {
    add<How::getter>(name, as_method<T>(std::forward<Get>(get)), extra...);
    return self();
  }

  template <class Get, class Set, class... Extra>
  Derived& def_property(const char* name, Get&& get, Set&& set, const Extra&... extra) {
    def_property_readonly(name, std::forward<Get>(get), extra...);
    if constexpr (!std::is_null_pointer_v<std::decay_t<Set>>) {
      add<How::setter>(name, as_method<T>(std::forward<Set>(set)), extra...);
    }
    return self();
  }

  template <class Get, class... Extra>
  Derived& def_property_readonly_static(const char* name, Get&& get, const Extra&... extra) {
    add<How::static_getter>(name, as_static(std::decay_t<Get>(get)), extra...);
    return self();
  }

  template <class Get, class Set, class... Extra>
  Derived& def_property_static(const char* name, Get&& get, Set&& set, const Extra&... extra) {
    def_property_readonly_static(name, std::forward<Get>(get), extra...);
    if constexpr (!std::is_null_pointer_v<std::decay_t<Set>>) {
      add<How::static_setter>(name, as_static(std::decay_t<Set>(set)), extra...);
    }
    return self();
  }

 protected:
  using Scope::Scope;

  Derived& self() {
    return static_cast<Derived&>(*this);
  }
};

}  // namespace binding
}  // namespace rules_torch_kernels
