// Other names of pybind11: casts of overloads, literals, and what is refused.
#pragma once
#pragma GCC system_header

#include "classes.h"
#include "enums.h"

namespace pybind11 {

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

#define RULES_TORCH_KERNELS_NAME(NAME)                                  \
  template <class... T, class... A>                                     \
  handle NAME(A&&...) {                                                 \
    static_assert(binding::never<A...>, RULES_TORCH_KERNELS_REFUSED("py::" #NAME)); \
    return {};                                                          \
  }
RULES_TORCH_KERNELS_NAME(bind_map)
RULES_TORCH_KERNELS_NAME(bind_vector)
RULES_TORCH_KERNELS_NAME(eval)
RULES_TORCH_KERNELS_NAME(exec)
RULES_TORCH_KERNELS_NAME(implicitly_convertible)
RULES_TORCH_KERNELS_NAME(isinstance)
RULES_TORCH_KERNELS_NAME(len)
RULES_TORCH_KERNELS_NAME(make_iterator)
RULES_TORCH_KERNELS_NAME(make_key_iterator)
RULES_TORCH_KERNELS_NAME(make_tuple)
RULES_TORCH_KERNELS_NAME(make_value_iterator)
RULES_TORCH_KERNELS_NAME(print)
RULES_TORCH_KERNELS_NAME(register_exception_translator)
RULES_TORCH_KERNELS_NAME(register_local_exception_translator)
RULES_TORCH_KERNELS_NAME(set_error)
RULES_TORCH_KERNELS_NAME(vectorize)
#undef RULES_TORCH_KERNELS_NAME

namespace literals {
constexpr arg operator"" _a(const char* name, size_t) {
  return arg(name);
}
}  // namespace literals

}  // namespace pybind11
