// The names of pybind11 that stand for Python objects. Their values can be attributes and defaults; whatever needs a
// Python is refused where it is used.
#pragma once
#pragma GCC system_header

#include <cstddef>

#include "text.h"

namespace pybind11 {

using ssize_t = std::ptrdiff_t;
using std::size_t;

// What all of these are; nothing of it can be used.
struct handle {
  template <class Name>
  handle attr(const Name&) const {
    static_assert(rules_torch_kernels::binding::never<Name>, RULES_TORCH_KERNELS_REFUSED("`attr` of a Python object"));
    return {};
  }
  template <class... A>
  handle operator()(A&&...) const {
    static_assert(rules_torch_kernels::binding::never<A...>, RULES_TORCH_KERNELS_REFUSED("a call of a Python object"));
    return {};
  }
  template <class T>
  T cast() const {
    static_assert(rules_torch_kernels::binding::never<T>, RULES_TORCH_KERNELS_REFUSED("`cast` of a Python object"));
    return *static_cast<T*>(nullptr);
  }
  template <class Key>
  handle operator[](const Key&) const {
    static_assert(rules_torch_kernels::binding::never<Key>, RULES_TORCH_KERNELS_REFUSED("an item of a Python object"));
    return {};
  }
};

// A Python value that is written into the module.
struct object : handle, rules_torch_kernels::binding::Value {
  object() : Value{"null"} {}
  explicit object(std::string json) : Value{std::move(json)} {}
};

struct none : object {};

struct bool_ : object {
  explicit bool_(bool value) : object(rules_torch_kernels::binding::written(value)) {}
};

struct int_ : object {
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  explicit int_(T value) : object(std::to_string(value)) {}
  template <class T, std::enable_if_t<std::is_enum_v<T>, int> = 0>
  explicit int_(T value) : object(std::to_string(static_cast<std::underlying_type_t<T>>(value))) {}
};

struct float_ : object {
  explicit float_(double value) : object(rules_torch_kernels::binding::written(value)) {}
};

struct str : object {
  explicit str(std::string_view value) : object(rules_torch_kernels::binding::written(value)) {}
};

// A value as Python has it: `py::cast(3)`.
template <class T>
object cast(const T& value) {
  return object(rules_torch_kernels::binding::written(value));
}

// These have no values here: as the type of an argument they are refused with its number, elsewhere in this way.
#define RULES_TORCH_KERNELS_OBJECT(NAME)                                                                       \
  struct NAME : handle {                                                                                       \
    template <class... A>                                                                                      \
    explicit NAME(A&&...) {                                                                                    \
      static_assert(rules_torch_kernels::binding::never<A...>, "not supported without Python: py::" #NAME); \
    }                                                                                                          \
  };
RULES_TORCH_KERNELS_OBJECT(args)
RULES_TORCH_KERNELS_OBJECT(buffer)
RULES_TORCH_KERNELS_OBJECT(bytearray)
RULES_TORCH_KERNELS_OBJECT(bytes)
RULES_TORCH_KERNELS_OBJECT(capsule)
RULES_TORCH_KERNELS_OBJECT(cpp_function)
RULES_TORCH_KERNELS_OBJECT(dict)
RULES_TORCH_KERNELS_OBJECT(dtype)
RULES_TORCH_KERNELS_OBJECT(ellipsis)
RULES_TORCH_KERNELS_OBJECT(exception_type)
RULES_TORCH_KERNELS_OBJECT(frozenset)
RULES_TORCH_KERNELS_OBJECT(function)
RULES_TORCH_KERNELS_OBJECT(generic_type)
RULES_TORCH_KERNELS_OBJECT(iterable)
RULES_TORCH_KERNELS_OBJECT(iterator)
RULES_TORCH_KERNELS_OBJECT(kwargs)
RULES_TORCH_KERNELS_OBJECT(list)
RULES_TORCH_KERNELS_OBJECT(memoryview)
RULES_TORCH_KERNELS_OBJECT(sequence)
RULES_TORCH_KERNELS_OBJECT(set)
RULES_TORCH_KERNELS_OBJECT(slice)
RULES_TORCH_KERNELS_OBJECT(staticmethod)
RULES_TORCH_KERNELS_OBJECT(tuple)
RULES_TORCH_KERNELS_OBJECT(type)
RULES_TORCH_KERNELS_OBJECT(weakref)
#undef RULES_TORCH_KERNELS_OBJECT

struct buffer_info {};

struct array : handle {
  enum { c_style = 1, f_style = 2, forcecast = 16 };
  template <class... A>
  explicit array(A&&...) {
    static_assert(rules_torch_kernels::binding::never<A...>, RULES_TORCH_KERNELS_REFUSED("py::array; take a torch::Tensor"));
  }
};

template <class T, int Flags = array::forcecast>
struct array_t : handle {
  template <class... A>
  explicit array_t(A&&...) {
    static_assert(rules_torch_kernels::binding::never<A...>, RULES_TORCH_KERNELS_REFUSED("py::array_t; take a torch::Tensor"));
  }
};

namespace detail {
// Specialisations are of no effect: they convert Python objects.
template <class T, class = void>
struct type_caster;
}  // namespace detail

}  // namespace pybind11
