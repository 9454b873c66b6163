// `py::class_`: a class of the author's, whose Python class the module's Python file makes.
#pragma once
#pragma GCC system_header

#include "methods.h"
#include "operators.h"

namespace rules_torch_kernels {
namespace binding {

// The one definition of what functions of the module refer to: see `ClassOf`.
template <class T>
struct PyClass {
  friend Class& without_py_class_for(ClassOf<T>*) {
    static Class kind{type_key<T>()};
    return kind;
  }
};

// How the holder of a class looks after an object that was made with `new`.
template <class T, class... Options>
struct HolderOf {
  static std::shared_ptr<void> own(void* object) {
    if constexpr (std::is_destructible_v<T>) {
      return std::shared_ptr<T>(static_cast<T*>(object));
    } else {
      throw std::runtime_error("an object whose class has no public destructor cannot be owned by Python");
    }
  }
};
template <class T, class Deleter, class... Rest>
struct HolderOf<T, std::unique_ptr<T, Deleter>, Rest...> {
  static std::shared_ptr<void> own(void* object) {
    return std::shared_ptr<T>(static_cast<T*>(object), Deleter());
  }
};
template <class T, class First, class... Rest>
struct HolderOf<T, First, Rest...> : HolderOf<T, Rest...> {};

template <class T, class Option>
inline constexpr bool is_holder = std::is_same_v<Option, std::shared_ptr<T>> || std::is_same_v<Option, pybind11::smart_holder>;
template <class T, class Deleter>
inline constexpr bool is_holder<T, std::unique_ptr<T, Deleter>> = true;

template <class T, class Option>
inline constexpr bool is_base = std::is_base_of_v<Option, T> && !std::is_same_v<Option, T>;
template <class T, class Option>
inline constexpr bool is_alias = std::is_base_of_v<T, Option>;

}  // namespace binding
}  // namespace rules_torch_kernels

namespace pybind11 {

template <class T, class... Options>
class class_ : public binding::Methods<class_<T, Options...>, T>, private binding::PyClass<T> {
  using Base = binding::Methods<class_<T, Options...>, T>;
  using How = binding::How;

  static_assert(
      binding::is_object<T>,
      RULES_TORCH_KERNELS_REFUSED(
          "py::class_ of a type of the standard library, of torch or of pybind11, of one that is no class, or with a "
          "type_caster of its own"));
  static_assert(
      !(binding::is_alias<T, Options> || ...),
      RULES_TORCH_KERNELS_REFUSED("a class whose methods Python overrides (a trampoline) in `py::class_`"));
  static_assert(
      ((binding::is_holder<T, Options> || binding::is_base<T, Options> || binding::is_alias<T, Options>) && ...),
      RULES_TORCH_KERNELS_REFUSED("this holder in `py::class_`; there are std::unique_ptr and std::shared_ptr"));

 public:
  using type = T;
  using Base::def;

  template <class... Extra>
  class_(const binding::Scope& scope, const char* name, const Extra&... extra)
      : Base(scope.definitions(), scope.path_of(name)) {
    binding::Class& kind = binding::class_of<T>();
    if (kind.own != nullptr) {
      throw std::runtime_error("generic_type: type \"" + std::string(name) + "\" is already registered!");
    }
    kind.own = &binding::HolderOf<T, Options...>::own;
    binding::Json bases;
    (add_base<Options>(kind, bases), ...);
    binding::Boxes::classes()[typeid(T)] = &kind;
    std::string doc;
    (add_doc(extra, doc), ...);
    binding::Json keys;
    keys.text("name", name).text("type", kind.type).text("doc", doc.empty() ? nullptr : doc.c_str());
    keys.key("bases", bases.list()).flag("dynamic", has<dynamic_attr, Extra...>).flag("final", has<is_final, Extra...>);
    scope.note("class", keys);
  }

  template <class... A, class... Extra>
  class_& def(const init_of<A...>&, const Extra&... extra) {
    const auto make = [](A... arguments) -> binding::Fresh<T> {
      if constexpr (std::is_constructible_v<T, A...>) {
        return binding::Fresh<T>::of(new T(std::forward<A>(arguments)...));
      } else {
        return binding::Fresh<T>::of(new T{std::forward<A>(arguments)...});
      }
    };
    Base::template add<How::init>("__init__", make, extra...);
    return *this;
  }

  template <class F, class... Extra>
  class_& def(const factory_of<F>& factory, const Extra&... extra) {
    Base::template add<How::init>("__init__", binding::as_constructor<T>(factory.make), extra...);
    return *this;
  }

  template <class Get, class Set, class... Extra>
  class_& def(const pickle_of<Get, Set>& pickled, const Extra&... extra) {
    def("__getstate__", pickled.get);
    Base::template add<How::init>("__setstate__", binding::as_constructor<T>(pickled.set), extra...);
    return *this;
  }

  template <class Operator, class Left, class Right, class... Extra>
  class_& def(const detail::op_<Operator, Left, Right>&, const Extra&... extra) {
    using Function = detail::operator_of<T, Operator, Left, Right>;
    return def(Function::name, &Function::call, is_operator(), extra...);
  }

  template <class C, class D, class... Extra>
  class_& def_readonly(const char* name, D C::*member, const Extra&... extra) {
    static_assert(std::is_base_of_v<C, T>, "def_readonly() requires a class member (or base class member)");
    return this->def_property_readonly(
        name, [member](const T& self) -> const D& { return self.*member; }, is_method(*this), extra...);
  }

  template <class C, class D, class... Extra>
  class_& def_readwrite(const char* name, D C::*member, const Extra&... extra) {
    static_assert(std::is_base_of_v<C, T>, "def_readwrite() requires a class member (or base class member)");
    return this->def_property(
        name, [member](const T& self) -> const D& { return self.*member; },
        [member](T& self, const D& value) { self.*member = value; }, is_method(*this), extra...);
  }

  template <class D, class... Extra>
  class_& def_readonly_static(const char* name, const D* member, const Extra&... extra) {
    Base::template add<How::static_getter>(
        name, [member]() -> const D& { return *member; }, return_value_policy::reference, extra...);
    return *this;
  }

  template <class D, class... Extra>
  class_& def_readwrite_static(const char* name, D* member, const Extra&... extra) {
    def_readonly_static(name, member, extra...);
    Base::template add<How::static_setter>(name, [member](const D& value) { *member = value; }, extra...);
    return *this;
  }

  template <class F>
  class_& def_buffer(F&&) {
    static_assert(binding::never<F>, RULES_TORCH_KERNELS_REFUSED("def_buffer of `py::class_`"));
    return *this;
  }

 private:
  template <class Wanted, class... Extra>
  static constexpr bool has = (std::is_same_v<Wanted, Extra> || ...);

  template <class Option>
  static void add_base(binding::Class& kind, binding::Json& bases) {
    if constexpr (binding::is_base<T, Option>) {
      const binding::Class* base = &binding::class_of<Option>();
      kind.bases.emplace_back(
          base, [](void* object) -> void* { return static_cast<Option*>(static_cast<T*>(object)); });
      bases.text_item(base->type);
    }
  }

  template <class Extra>
  static void add_doc(const Extra& extra, std::string& doc) {
    if constexpr (std::is_convertible_v<Extra, const char*>) {
      doc = extra;
    } else if constexpr (std::is_same_v<Extra, pybind11::doc>) {
      doc = extra.value;
    } else {
      static_assert(
          has<Extra, dynamic_attr, is_final, module_local, multiple_inheritance>,
          RULES_TORCH_KERNELS_REFUSED("this further argument of `py::class_`"));
    }
  }
};

template <class T, class... Options>
using classh = class_<T, smart_holder, Options...>;

}  // namespace pybind11
