// `py::self + py::self` and its like: operators of C++ as the methods that Python looks for.
#pragma once
#pragma GCC system_header

#include <cstdlib>
#include <functional>

#include "module.h"

namespace pybind11 {
namespace detail {

struct self_t {};
static const self_t self = self_t();

// An operator and its sides; `void` on the right of one that has no right side.
template <class Operator, class Left, class Right>
struct op_ {};

// The method of T that stands for an operator.
template <class T, class Operator, class Left, class Right>
struct operator_of;
template <class T, class Operator>
struct operator_of<T, Operator, self_t, self_t> {
  static constexpr const char* name = Operator::name;
  static auto call(typename Operator::template self<T> left, const T& right) -> decltype(Operator::apply(left, right)) {
    return Operator::apply(left, right);
  }
};
template <class T, class Operator, class Right>
struct operator_of<T, Operator, self_t, Right> {
  static constexpr const char* name = Operator::name;
  static auto call(typename Operator::template self<T> left, const Right& right) -> decltype(Operator::apply(left, right)) {
    return Operator::apply(left, right);
  }
};
template <class T, class Operator, class Left>
struct operator_of<T, Operator, Left, self_t> {
  static constexpr const char* name = Operator::reflected;
  static auto call(const T& right, const Left& left) -> decltype(Operator::apply(left, right)) {
    return Operator::apply(left, right);
  }
};
template <class T, class Operator>
struct operator_of<T, Operator, self_t, void> {
  static constexpr const char* name = Operator::name;
  static auto call(const T& value) -> decltype(Operator::apply(value)) {
    return Operator::apply(value);
  }
};

#define RULES_TORCH_KERNELS_BINARY(NAME, REFLECTED, OPERATOR)                         \
  struct op_##NAME {                                                                  \
    static constexpr const char* name = "__" #NAME "__";                              \
    static constexpr const char* reflected = "__" #REFLECTED "__";                    \
    template <class T>                                                                \
    using self = const T&;                                                            \
    template <class Left, class Right>                                                \
    static auto apply(const Left& left, const Right& right) -> decltype(left OPERATOR right) { \
      return left OPERATOR right;                                                     \
    }                                                                                 \
  };                                                                                  \
  inline op_<op_##NAME, self_t, self_t> operator OPERATOR(const self_t&, const self_t&) { \
    return {};                                                                        \
  }                                                                                   \
  template <class Right>                                                              \
  op_<op_##NAME, self_t, Right> operator OPERATOR(const self_t&, const Right&) {      \
    return {};                                                                        \
  }                                                                                   \
  template <class Left>                                                               \
  op_<op_##NAME, Left, self_t> operator OPERATOR(const Left&, const self_t&) {        \
    return {};                                                                        \
  }
RULES_TORCH_KERNELS_BINARY(sub, rsub, -)
RULES_TORCH_KERNELS_BINARY(add, radd, +)
RULES_TORCH_KERNELS_BINARY(mul, rmul, *)
RULES_TORCH_KERNELS_BINARY(truediv, rtruediv, /)
RULES_TORCH_KERNELS_BINARY(mod, rmod, %)
RULES_TORCH_KERNELS_BINARY(lshift, rlshift, <<)
RULES_TORCH_KERNELS_BINARY(rshift, rrshift, >>)
RULES_TORCH_KERNELS_BINARY(and, rand, &)
RULES_TORCH_KERNELS_BINARY(xor, rxor, ^)
RULES_TORCH_KERNELS_BINARY(or, ror, |)
RULES_TORCH_KERNELS_BINARY(eq, eq, ==)
RULES_TORCH_KERNELS_BINARY(ne, ne, !=)
RULES_TORCH_KERNELS_BINARY(gt, lt, >)
RULES_TORCH_KERNELS_BINARY(ge, le, >=)
RULES_TORCH_KERNELS_BINARY(lt, gt, <)
RULES_TORCH_KERNELS_BINARY(le, ge, <=)
#undef RULES_TORCH_KERNELS_BINARY

#define RULES_TORCH_KERNELS_INPLACE(NAME, OPERATOR)                               \
  struct op_##NAME {                                                              \
    static constexpr const char* name = "__" #NAME "__";                          \
    template <class T>                                                            \
    using self = T&;                                                              \
    template <class Left, class Right>                                            \
    static Left& apply(Left& left, const Right& right) {                          \
      return left OPERATOR right;                                                 \
    }                                                                             \
  };                                                                              \
  template <class Right>                                                          \
  op_<op_##NAME, self_t, Right> operator OPERATOR(const self_t&, const Right&) {  \
    return {};                                                                    \
  }
RULES_TORCH_KERNELS_INPLACE(iadd, +=)
RULES_TORCH_KERNELS_INPLACE(isub, -=)
RULES_TORCH_KERNELS_INPLACE(imul, *=)
RULES_TORCH_KERNELS_INPLACE(itruediv, /=)
RULES_TORCH_KERNELS_INPLACE(imod, %=)
RULES_TORCH_KERNELS_INPLACE(ilshift, <<=)
RULES_TORCH_KERNELS_INPLACE(irshift, >>=)
RULES_TORCH_KERNELS_INPLACE(iand, &=)
RULES_TORCH_KERNELS_INPLACE(ixor, ^=)
RULES_TORCH_KERNELS_INPLACE(ior, |=)
#undef RULES_TORCH_KERNELS_INPLACE

#define RULES_TORCH_KERNELS_UNARY(NAME, FUNCTION, RESULT)           \
  struct op_##NAME {                                                \
    static constexpr const char* name = "__" #NAME "__";            \
    template <class T>                                              \
    static auto apply(const T& value) -> decltype(RESULT) {         \
      return RESULT;                                                \
    }                                                               \
  };                                                                \
  inline op_<op_##NAME, self_t, void> FUNCTION(const self_t&) {     \
    return {};                                                      \
  }
RULES_TORCH_KERNELS_UNARY(neg, operator-, -value)
RULES_TORCH_KERNELS_UNARY(pos, operator+, +value)
RULES_TORCH_KERNELS_UNARY(invert, operator~, ~value)
RULES_TORCH_KERNELS_UNARY(bool, operator!, !!value)
RULES_TORCH_KERNELS_UNARY(abs, abs, std::abs(value))
RULES_TORCH_KERNELS_UNARY(hash, hash, std::hash<T>()(value))
#undef RULES_TORCH_KERNELS_UNARY

}  // namespace detail

using detail::hash;
using detail::self;

}  // namespace pybind11
