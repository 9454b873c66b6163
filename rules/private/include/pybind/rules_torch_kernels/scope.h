// What functions, attributes and classes are put into: a module, a submodule or a class, noted for the module's Python file.
#pragma once
#pragma GCC system_header

#include <torch/library.h>

#include <memory>

#include "extras.h"
#include "wrapped.h"

namespace rules_torch_kernels {
namespace binding {

// What a function is to be registered as: see binding.cpp.
struct Function;

// Everything that a module has, in the order of the author's code.
struct Definitions {
  std::vector<std::shared_ptr<Function>> functions;
  // An object for each, but for functions, whose place is empty.
  std::vector<std::string> items;
  std::string doc;
};

// How a function is called: by itself, as a method, to make an object, as a static method, as an attribute.
enum class How { function, method, init, static_, getter, setter, static_getter, static_setter };

class Scope;

// `m.attr("name")`: it can be set, and be the value of another one.
class Attribute {
 public:
  Attribute(Definitions& definitions, std::string scope, std::string name)
      : definitions_(definitions), scope_(std::move(scope)), name_(std::move(name)) {}
  Attribute(const Attribute&) = default;

  template <class T>
  void operator=(const T& value) {
    if constexpr (std::is_base_of_v<Scope, T>) {
      set("same", json_text(value.path()));
    } else {
      set("value", written(value));
    }
  }
  void operator=(const Attribute& other) {
    set("same", json_text(other.path()));
  }

  std::string path() const {
    return scope_.empty() ? name_ : scope_ + "." + name_;
  }

 private:
  void set(const char* key, const std::string& value);

  Definitions& definitions_;
  std::string scope_;
  std::string name_;
};

class Scope {
 public:
  Scope(Definitions& definitions, std::string path) : definitions_(&definitions), path_(std::move(path)) {}

  Attribute attr(const char* name) const {
    return {*definitions_, path_, name};
  }

  const std::string& path() const {
    return path_;
  }

  std::string path_of(const char* name) const {
    return path_.empty() ? name : path_ + "." + name;
  }

  Definitions& definitions() const {
    return *definitions_;
  }

  // What is not a function: its kind, and the other keys of its object.
  void note(const char* kind, Json keys) const;

  // A function: what can be called, and what is told of it.
  template <How HOW, class F, class... Extra>
  void add(const char* name, F&& function, const Extra&... extra) const {
    using Held = std::decay_t<F>;
    static_assert(
        !std::is_member_pointer_v<Held>, RULES_TORCH_KERNELS_REFUSED("a member function that is no method of a `py::class_`"));
    static_assert(
        std::is_member_pointer_v<Held> || is_function<Held>,
        RULES_TORCH_KERNELS_REFUSED("what `def` is given is neither a function nor an object with one operator()"));
    if constexpr (is_function<Held>) {
      using Signature = typename SignatureOf<Held>::signature;
      // The object that a method is of is no argument of the author's.
      constexpr bool has_self = HOW == How::method || HOW == How::getter || HOW == How::setter;
      constexpr size_t count = SignatureOf<Held>::count - (has_self ? 1 : 0);
      constexpr size_t named = (size_t(0) + ... + size_t(pybind11::detail::is_argument<Extra>));
      static_assert(
          named == 0 || named == count,
          "The number of argument annotations does not match the number of function arguments");
      Types<Signature>::check();
      if constexpr (Types<Signature>::supported && (named == 0 || named == count)) {
        using Guards = typename pybind11::detail::first_guards<Extra...>::type;
        using Schema = SchemaOf<Signature>;
        pybind11::detail::Told told;
        told.has_self = HOW == How::method;
        if (HOW == How::getter || HOW == How::setter) {
          told.policy = pybind11::return_value_policy::reference_internal;
        }
        if (has_self && named > 0) {
          told.add(pybind11::arg("self").none(false));
        }
        (told.add(extra), ...);
        Callee callee{
            {new Held(std::forward<F>(function)), [](void* held) { delete static_cast<Held*>(held); }},
            &Calling<Held, Guards, Signature>::call};
        define(HOW, name, told, Schema::parameters(), Schema::result(), Schema::returned(), std::move(callee));
      }
    }
  }

 private:
  void define(
      How how,
      const char* name,
      const pybind11::detail::Told& told,
      const std::vector<Parameter>& parameters,
      const std::string& result,
      const std::vector<c10::TypePtr>& returned,
      Callee callee) const;

  Definitions* definitions_;
  std::string path_;
};

}  // namespace binding
}  // namespace rules_torch_kernels
