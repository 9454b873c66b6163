// What stands behind name and function in `def`: names and defaults of arguments, docs, guards, policies.
#pragma once
#pragma GCC system_header

#include "function.h"

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
template <size_t Nurse, size_t Patient>
struct keep_alive {};
// Whether the first argument is written as `self`.
struct is_method {
  template <class T>
  explicit is_method(const T&) {}
};
struct is_operator {};
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
    static_assert(binding::never<T>, RULES_TORCH_KERNELS_REFUSED("py::options::disable_function_signatures"));
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

template <class T>
struct kept {
  static constexpr bool found = false;
};
template <size_t Nurse, size_t Patient>
struct kept<keep_alive<Nurse, Patient>> {
  static constexpr bool found = true;
  static std::string json() {
    return binding::Json().item(std::to_string(Nurse)).item(std::to_string(Patient)).list();
  }
};

// What `def` is told besides name and function.
struct Told {
  std::vector<std::string> arguments;
  std::vector<std::string> names;
  std::string doc;
  binding::Json kept_alive;
  return_value_policy policy = return_value_policy::automatic;
  int positional = -1;
  int keywords = -1;
  bool first = false;
  bool is_operator = false;
  bool has_self = false;

  // An argument that is named.
  void add_argument(const arg& named, const arg_v* with_default);

  template <class T>
  void add(T&& extra) {
    using Extra = binding::bare<T>;
    if constexpr (is_argument<Extra>) {
      if constexpr (std::is_base_of_v<arg_v, Extra>) {
        add_argument(extra, &extra);
      } else {
        add_argument(extra, nullptr);
      }
    } else if constexpr (std::is_same_v<Extra, kw_only>) {
      keywords = static_cast<int>(arguments.size());
    } else if constexpr (std::is_same_v<Extra, pos_only>) {
      positional = static_cast<int>(arguments.size());
    } else if constexpr (std::is_same_v<Extra, prepend>) {
      first = true;
    } else if constexpr (std::is_same_v<Extra, is_method>) {
      has_self = true;
    } else if constexpr (std::is_same_v<Extra, pybind11::is_operator>) {
      is_operator = true;
    } else if constexpr (std::is_same_v<Extra, return_value_policy>) {
      policy = extra;
    } else if constexpr (kept<Extra>::found) {
      kept_alive.item(kept<Extra>::json());
    } else if constexpr (std::is_same_v<Extra, pybind11::doc>) {
      doc = extra.value;
    } else if constexpr (std::is_convertible_v<T, const char*>) {
      doc = static_cast<const char*>(extra);
    } else {
      static_assert(
          guards<Extra>::found, RULES_TORCH_KERNELS_REFUSED("this further argument of `def`"));
    }
  }
};

}  // namespace detail

}  // namespace pybind11
