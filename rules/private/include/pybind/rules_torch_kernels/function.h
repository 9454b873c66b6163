// A function of the author's as an op of torch: its signature, and the kernel that calls it.
#pragma once
#pragma GCC system_header

#include <ATen/core/boxing/BoxedKernel.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <memory>

#include "containers.h"
#include "exceptions.h"
#include "gil.h"
#include "python_types.h"

namespace rules_torch_kernels {
namespace binding {

// The signature of what can be called: `R(A...)`.
template <class F>
struct Called;
template <class R, class... A>
struct Called<R(A...)> {
  using result = R;
  using signature = R(A...);
  static constexpr size_t count = sizeof...(A);
};
template <class R, class... A>
struct Called<R (*)(A...)> : Called<R(A...)> {};
template <class R, class... A>
struct Called<R (*)(A...) noexcept> : Called<R(A...)> {};
template <class R, class C, class... A>
struct Called<R (C::*)(A...)> : Called<R(A...)> {};
template <class R, class C, class... A>
struct Called<R (C::*)(A...) const> : Called<R(A...)> {};
template <class R, class C, class... A>
struct Called<R (C::*)(A...) noexcept> : Called<R(A...)> {};
template <class R, class C, class... A>
struct Called<R (C::*)(A...) const noexcept> : Called<R(A...)> {};
template <class R, class C, class... A>
struct Called<R (C::*)(A...) &> : Called<R(A...)> {};
template <class R, class C, class... A>
struct Called<R (C::*)(A...) const&> : Called<R(A...)> {};

template <class F, class = void>
inline constexpr bool is_functor = false;
template <class F>
inline constexpr bool is_functor<F, std::void_t<decltype(&F::operator())>> = true;

template <class F, bool = is_functor<F>>
struct SignatureOf : Called<decltype(&F::operator())> {};
template <class F>
struct SignatureOf<F, false> : Called<F> {};

template <class F>
inline constexpr bool is_function = is_functor<F> || (std::is_pointer_v<F> && std::is_function_v<std::remove_pointer_t<F>>);

// Why a type is not supported; the first that holds is said.
template <class T>
inline constexpr bool is_python = std::is_base_of_v<pybind11::handle, bare<T>>;
template <class T>
inline constexpr bool is_pointer = std::is_pointer_v<bare<T>> && !is_supported<T>;
template <class T>
inline constexpr bool is_other = !is_supported<T> && !is_python<T> && !is_pointer<T>;

// Fails for a type that is not supported: that of an argument, counted from 1, or with 0 that of the result. Compilers
// name the line of `def` behind the message.
template <int NUMBER, class T>
constexpr void check_type() {
  if constexpr (!is_supported<T>) {
#define RULES_TORCH_KERNELS_CHECK(WHICH, NAME)                                                                           \
  static_assert(                                                                                                         \
      NUMBER != WHICH || !is_python<T>,                                                                                  \
      RULES_TORCH_KERNELS_REFUSED(NAME " is a Python object (py::object, py::dict, py::array, py::args, ...)"));         \
  static_assert(                                                                                                         \
      NUMBER != WHICH || !is_pointer<T>,                                                                                 \
      RULES_TORCH_KERNELS_REFUSED(NAME " is a pointer; pass an address as an integer, e.g. `uintptr_t`"));               \
  static_assert(                                                                                                         \
      NUMBER != WHICH || !is_other<T>, RULES_TORCH_KERNELS_REFUSED(NAME " has a type without a conversion"));
    RULES_TORCH_KERNELS_CHECK(0, "the result of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(1, "argument 1 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(2, "argument 2 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(3, "argument 3 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(4, "argument 4 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(5, "argument 5 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(6, "argument 6 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(7, "argument 7 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(8, "argument 8 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(9, "argument 9 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(10, "argument 10 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(11, "argument 11 of the function in `def`")
    RULES_TORCH_KERNELS_CHECK(12, "argument 12 of the function in `def`")
#undef RULES_TORCH_KERNELS_CHECK
    static_assert(NUMBER <= 12, RULES_TORCH_KERNELS_REFUSED("the type of argument NUMBER of the function in `def`"));
  }
}

// What a function is called with, of what is held for an argument of type A.
template <class A>
decltype(auto) passed(typename Type<bare<A>>::held& held) {
  if constexpr (!std::is_same_v<typename Type<bare<A>>::held, bare<A>>) {
    return Type<bare<A>>::view(held);
  } else if constexpr (std::is_lvalue_reference_v<A>) {
    return static_cast<A>(held);
  } else {
    return std::move(held);
  }
}

template <class R>
inline constexpr bool is_spread = false;
template <class First, class Second, class... T>
inline constexpr bool is_spread<std::tuple<First, Second, T...>> = true;
template <class First, class Second>
inline constexpr bool is_spread<std::pair<First, Second>> = true;

// The guards of `py::call_guard`, each made after those before it.
template <class... Guards>
struct GuardsOf {};
template <class First, class... Rest>
struct GuardsOf<First, Rest...> {
  First first;
  GuardsOf<Rest...> rest;
};

// Whether an argument is the address of a box.
template <class T>
inline constexpr bool is_boxed = is_object<std::remove_cv_t<std::remove_pointer_t<T>>>;
template <class T>
inline constexpr bool is_boxed<std::shared_ptr<T>> = is_object<std::remove_cv_t<T>>;

template <class F, class Guards, class Signature>
class Kernel;

template <class F, class Guards, class R, class... A>
class Kernel<F, Guards, R(A...)> final : public c10::OperatorKernel {
 public:
  Kernel(F function, pybind11::return_value_policy policy) : function_(std::move(function)), policy_(policy) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    try {
      call(*stack, std::index_sequence_for<A...>());
    } catch (...) {
      Exceptions::translate();
      throw;
    }
  }

 private:
  template <size_t... I>
  void call(torch::jit::Stack& stack, std::index_sequence<I...>) {
    const size_t first = stack.size() - sizeof...(A);
    const Locked locked;
    [[maybe_unused]] std::tuple<typename Type<bare<A>>::held...> held{Type<bare<A>>::load(stack[first + I])...};
    Handing handing{policy_, nullptr, !std::is_reference_v<R>};
    if constexpr (sizeof...(A) > 0) {
      if constexpr (is_boxed<std::tuple_element_t<0, std::tuple<bare<A>...>>>) {
        handing.parent = stack[first].isInt() ? box_at(stack[first].toInt()) : nullptr;
      }
    }
    torch::jit::drop(stack, sizeof...(A));
    if constexpr (std::is_void_v<R>) {
      [[maybe_unused]] Guards guards;
      function_(passed<A>(std::get<I>(held))...);
    } else {
      // After the function, which may call others of the module.
      decltype(auto) result = guarded<I...>(held);
      const HandingScope scope(handing);
      store(stack, std::forward<R>(result));
    }
  }

  template <size_t... I, class Held>
  R guarded([[maybe_unused]] Held& held) {
    [[maybe_unused]] Guards guards;
    return function_(passed<A>(std::get<I>(held))...);
  }

  template <class Result>
  static void store(torch::jit::Stack& stack, Result&& result) {
    if constexpr (is_spread<bare<R>>) {
      std::apply(
          [&](auto&&... item) {
            (stack.push_back(Type<bare<decltype(item)>>::store(std::forward<decltype(item)>(item))), ...);
          },
          std::forward<Result>(result));
    } else {
      stack.push_back(Type<bare<R>>::store(std::forward<Result>(result)));
    }
  }

  F function_;
  pybind11::return_value_policy policy_;
};

// The schema of a function, and its signature in JSON.
template <class Signature>
struct SchemaOf;

template <class R, class... A>
struct SchemaOf<R(A...)> {
  static std::vector<std::string> arguments() {
    return {Type<bare<A>>::describe()...};
  }

  static std::string result() {
    if constexpr (std::is_void_v<R>) {
      return json_text("none");
    } else {
      return Type<bare<R>>::describe();
    }
  }

  static std::vector<c10::Argument> wired(const std::vector<std::string>& names) {
    std::vector<c10::Argument> wired;
    [[maybe_unused]] size_t i = 0;
    (wired.push_back(argument<A>(names[i++], i)), ...);
    return wired;
  }

  static std::vector<c10::Argument> returned() {
    if constexpr (std::is_void_v<R>) {
      return {};
    } else if constexpr (is_spread<bare<R>>) {
      return spread(static_cast<bare<R>*>(nullptr));
    } else {
      return {c10::Argument("", Returned<bare<R>>::wire())};
    }
  }

 private:
  // A tensor that is handed over by reference, and not a constant one, may be written.
  template <class T>
  static constexpr bool is_written = std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>> &&
      (std::is_same_v<bare<T>, at::Tensor> || std::is_same_v<bare<T>, std::optional<at::Tensor>>);

  // Of some types the schema has two: the one that it says, and the one that Python's values are converted to.
  template <class T>
  static c10::Argument argument(const std::string& name, size_t number) {
    std::optional<c10::AliasInfo> alias;
    if (is_written<T>) {
      const auto set = c10::Symbol::fromQualString("alias::a" + std::to_string(number));
      alias.emplace();
      alias->setIsWrite(true);
      alias->addBeforeSet(set);
      alias->addAfterSet(set);
    }
    const c10::TypePtr type = Type<bare<T>>::wire();
    return c10::Argument(name, type, type, std::nullopt, std::nullopt, false, std::move(alias));
  }

  template <class... T>
  static std::vector<c10::Argument> spread(std::tuple<T...>*) {
    return {c10::Argument("", Returned<bare<T>>::wire())...};
  }
  template <class First, class Second>
  static std::vector<c10::Argument> spread(std::pair<First, Second>*) {
    return spread(static_cast<std::tuple<First, Second>*>(nullptr));
  }
};

template <class Signature>
struct Types;
template <class R, class... A>
struct Types<R(A...)> {
  static constexpr bool supported = (std::is_void_v<R> || is_supported<R>) && (is_supported<A> && ... && true);

  static constexpr void check() {
    check_all(std::index_sequence_for<A...>());
  }

 private:
  template <size_t... I>
  static constexpr void check_all(std::index_sequence<I...>) {
    (check_type<static_cast<int>(I) + 1, A>(), ...);
    if constexpr (!std::is_void_v<R>) {
      check_type<0, R>();
    }
  }
};

}  // namespace binding
}  // namespace rules_torch_kernels
