// What stands in PYBIND11_MODULE: the functions, attributes and enums of a module, noted for its Python file.
#pragma once
#pragma GCC system_header

#include <c10/core/DispatchKeySet.h>
#include <torch/library.h>

#include "function.h"

namespace rules_torch_kernels {
namespace binding {

// What a function is to be registered as.
struct Function {
  std::string scope;
  std::string name;
  std::vector<c10::Argument> arguments;
  std::vector<c10::Argument> results;
  c10::BoxedKernel kernel;
  std::string json;
};

// Everything that a module has, in the order of the author's code.
struct Definitions {
  std::vector<Function> functions;
  // An object for each, but for functions, whose place is empty.
  std::vector<std::string> items;
  std::string doc;
};

inline std::string key(const char* name, const std::string& value) {
  return json_text(name) + ":" + value;
}

}  // namespace binding
}  // namespace rules_torch_kernels

namespace pybind11 {

namespace binding = ::rules_torch_kernels::binding;

struct arg_v;

// The name of an argument, and how it is converted.
struct arg {
  constexpr explicit arg(const char* argument_name = nullptr) : name(argument_name) {}
  template <class T>
  arg_v operator=(T&& value) const;
  arg& noconvert(bool flag = true) {
    converts = !flag;
    return *this;
  }
  arg& none(bool flag = true) {
    takes_none = flag;
    return *this;
  }

  const char* name;
  bool converts = true;
  bool takes_none = true;
};

// The same with a default.
struct arg_v : arg {
  template <class T>
  arg_v(const char* argument_name, T&& default_value, const char* description = nullptr)
      : arg_v(arg(argument_name), std::forward<T>(default_value), description) {}
  template <class T>
  arg_v(const arg& base, T&& default_value, const char* description = nullptr)
      : arg(base), value(binding::written(default_value)), text(description) {}
  arg_v& noconvert(bool flag = true) {
    arg::noconvert(flag);
    return *this;
  }
  arg_v& none(bool flag = true) {
    arg::none(flag);
    return *this;
  }

  std::string value;
  const char* text;
};

template <class T>
arg_v arg::operator=(T&& value) const {
  return {*this, std::forward<T>(value)};
}

struct kw_only {};
struct pos_only {};
struct arithmetic {
  explicit arithmetic(bool = true) {}
};
struct prepend {};
struct module_local {
  explicit module_local(bool = true) {}
};
struct doc {
  const char* value;
  explicit doc(const char* text) : value(text) {}
};
struct name {
  const char* value;
  explicit name(const char* text) : value(text) {}
};
template <class... Guards>
struct call_guard {};
// Results are values here; they keep nothing alive.
template <size_t Nurse, size_t Patient>
struct keep_alive {
  static_assert(Nurse != Nurse, "not supported without Python: py::keep_alive");
};
enum class return_value_policy {
  automatic,
  automatic_reference,
  take_ownership,
  copy,
  move,
  reference,
  reference_internal,
};
struct mod_gil_not_used {
  explicit mod_gil_not_used(bool = true) {}
};

class options {
 public:
  options& disable_user_defined_docstrings() & {
    return *this;
  }
  options& enable_user_defined_docstrings() & {
    return *this;
  }
  template <class T = void>
  options& disable_function_signatures() & {
    static_assert(binding::never<T>, "not supported without Python: py::options::disable_function_signatures");
    return *this;
  }
};

namespace detail {

template <class T>
struct guards {
  using type = binding::GuardsOf<>;
  static constexpr bool found = false;
};
template <class... Guards>
struct guards<call_guard<Guards...>> {
  using type = binding::GuardsOf<Guards...>;
  static constexpr bool found = true;
};

template <class... Extra>
struct first_guards {
  using type = binding::GuardsOf<>;
};
template <class First, class... Rest>
struct first_guards<First, Rest...> {
  using type = typename std::
      conditional_t<guards<binding::bare<First>>::found, guards<binding::bare<First>>, first_guards<Rest...>>::type;
};

template <class T>
inline constexpr bool is_argument = std::is_base_of_v<arg, binding::bare<T>>;

// What `m.def` is told besides name and function.
struct Told {
  std::vector<std::string> arguments;
  std::vector<std::string> names;
  std::string doc;
  int positional = -1;
  int keywords = -1;
  bool first = false;

  template <class T>
  void add(T&& extra) {
    using Extra = binding::bare<T>;
    if constexpr (is_argument<Extra>) {
      std::vector<std::string> keys{
          binding::key("name", extra.name == nullptr ? "null" : binding::json_text(extra.name)),
          binding::key("convert", extra.converts ? "true" : "false"),
          binding::key("none", extra.takes_none ? "true" : "false"),
      };
      if constexpr (std::is_base_of_v<arg_v, Extra>) {
        keys.push_back(binding::key("default", extra.value));
        keys.push_back(binding::key("text", extra.text == nullptr ? "null" : binding::json_text(extra.text)));
      }
      arguments.push_back(binding::joined(keys));
      names.push_back(extra.name == nullptr ? "" : extra.name);
    } else if constexpr (std::is_same_v<Extra, kw_only>) {
      keywords = static_cast<int>(arguments.size());
    } else if constexpr (std::is_same_v<Extra, pos_only>) {
      positional = static_cast<int>(arguments.size());
    } else if constexpr (std::is_same_v<Extra, prepend>) {
      first = true;
    } else if constexpr (std::is_same_v<Extra, pybind11::doc>) {
      doc = extra.value;
    } else if constexpr (std::is_convertible_v<T, const char*>) {
      doc = static_cast<const char*>(extra);
    } else {
      constexpr bool known = guards<Extra>::found || std::is_same_v<Extra, return_value_policy>;
      static_assert(known, "not supported without Python: this further argument of `m.def`");
    }
  }
};

}  // namespace detail

class module_;

// `m.attr("name")`: it can be set, and be the value of another one.
class attribute {
 public:
  attribute(binding::Definitions& definitions, std::string scope, std::string name)
      : definitions_(definitions), scope_(std::move(scope)), name_(std::move(name)) {}

  template <class T>
  void operator=(const T& value) {
    set(binding::key("value", binding::written(value)));
  }
  void operator=(const attribute& other) {
    set(binding::key("same", binding::json_text(other.name_)));
  }
  attribute(const attribute&) = default;

 private:
  void set(const std::string& value) {
    definitions_.items.push_back(
        "{" + binding::joined({binding::key("kind", binding::json_text("attribute")), binding::key("scope", binding::json_text(scope_)),
                              binding::key("name", binding::json_text(name_)), value}) + "}");
  }

  binding::Definitions& definitions_;
  std::string scope_;
  std::string name_;
};

class module_ {
 public:
  module_(binding::Definitions& definitions, std::string scope) : definitions_(&definitions), scope_(std::move(scope)) {}

  template <class F, class... Extra>
  module_& def(const char* name, F&& function, const Extra&... extra) {
    using Held = std::decay_t<F>;
    static_assert(!std::is_member_pointer_v<Held>, "not supported without Python: a member function, since there is no py::class_");
    static_assert(
        std::is_member_pointer_v<Held> || binding::is_function<Held>,
        "not supported without Python: what `m.def` is given is neither a function nor an object with one operator()");
    if constexpr (binding::is_function<Held>) {
      using Signature = typename binding::SignatureOf<Held>::signature;
      constexpr size_t count = binding::SignatureOf<Held>::count;
      constexpr size_t named = (size_t(0) + ... + size_t(detail::is_argument<Extra>));
      static_assert(
          named == 0 || named == count,
          "The number of argument annotations does not match the number of function arguments");
      binding::Types<Signature>::check();
      if constexpr (binding::Types<Signature>::supported && (named == 0 || named == count)) {
        using Guards = typename detail::first_guards<Extra...>::type;
        using Kernel = binding::Kernel<Held, Guards, Signature>;
        using Schema = binding::SchemaOf<Signature>;
        detail::Told told;
        (told.add(extra), ...);
        add(name, told, Schema::arguments(), Schema::result(), [](const auto& names) { return Schema::wired(names); },
            Schema::returned(), c10::BoxedKernel::makeFromFunctor(std::make_unique<Kernel>(std::forward<F>(function))));
      }
    }
    return *this;
  }

  attribute attr(const char* name) {
    return {*definitions_, scope_, name};
  }

  template <class T>
  module_& add_object(const char* name, const T& value, bool = false) {
    attr(name) = value;
    return *this;
  }

  module_ def_submodule(const char* name, const char* doc = nullptr) {
    note("module", {binding::key("name", binding::json_text(name)), binding::key("doc", doc ? binding::json_text(doc) : "null")});
    return {*definitions_, scope_.empty() ? name : scope_ + "." + name};
  }

  // `m.doc() = "..."`.
  std::string& doc() {
    return definitions_->doc;
  }

  template <class T = void>
  static module_ import(const char*) {
    static_assert(binding::never<T>, "not supported without Python: py::module_::import");
  }

  size_t note(const char* kind, std::vector<std::string> keys) {
    keys.push_back(binding::key("kind", binding::json_text(kind)));
    keys.push_back(binding::key("scope", binding::json_text(scope_)));
    definitions_->items.push_back("{" + binding::joined(keys) + "}");
    return definitions_->items.size() - 1;
  }

  binding::Definitions& definitions() {
    return *definitions_;
  }

 private:
  template <class Wire>
  void add(
      const char* name,
      const detail::Told& told,
      const std::vector<std::string>& types,
      const std::string& result,
      const Wire& wired,
      std::vector<c10::Argument> results,
      c10::BoxedKernel kernel) {
    std::vector<std::string> names;
    std::vector<std::string> arguments;
    for (size_t i = 0; i < types.size(); ++i) {
      const bool named = i < told.names.size();
      names.push_back(named && !told.names[i].empty() ? told.names[i] : "arg" + std::to_string(i));
      const std::string rest = named ? told.arguments[i] : R"("name":null,"convert":true,"none":true)";
      arguments.push_back("{" + binding::key("type", types[i]) + "," + rest + "}");
    }
    const std::vector<std::string> keys{
        binding::key("kind", binding::json_text("function")),
        binding::key("scope", binding::json_text(scope_)),
        binding::key("name", binding::json_text(name)),
        binding::key("doc", binding::json_text(told.doc)),
        binding::key("arguments", "[" + binding::joined(arguments) + "]"),
        binding::key("result", result),
        binding::key("positional", std::to_string(told.positional)),
        binding::key("keywords", std::to_string(told.keywords)),
        binding::key("prepend", told.first ? "true" : "false"),
    };
    definitions_->items.emplace_back();
    definitions_->functions.push_back(
        {scope_, name, wired(names), std::move(results), std::move(kernel), binding::joined(keys)});
  }

  binding::Definitions* definitions_;
  std::string scope_;
};

using module = module_;

}  // namespace pybind11
