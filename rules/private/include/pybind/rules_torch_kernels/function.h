// A function of the author's as an op of torch: its signature, and the kernel that calls it.
#pragma once
#pragma GCC system_header

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

// A function of the author's: what is called, and how that is called with the arguments on torch's stack.
struct Callee {
  using Call = void (*)(void* function, pybind11::return_value_policy policy, torch::jit::Stack& stack);

  std::unique_ptr<void, void (*)(void*)> function;
  Call call;
};

// How a function of one type is called.
template <class F, class Guards, class Signature>
class Calling;

template <class F, class Guards, class R, class... A>
class Calling<F, Guards, R(A...)> {
 public:
  static void call(void* function, pybind11::return_value_policy policy, torch::jit::Stack& stack) {
    run(*static_cast<F*>(function), policy, stack, std::index_sequence_for<A...>());
  }

 private:
  template <size_t... I>
  static void run(F& function, pybind11::return_value_policy policy, torch::jit::Stack& stack, std::index_sequence<I...>) {
    const size_t first = stack.size() - sizeof...(A);
    const Locked locked;
    [[maybe_unused]] std::tuple<typename Type<bare<A>>::held...> held{Type<bare<A>>::load(stack[first + I])...};
    Handing handing{policy, nullptr, !std::is_reference_v<R>};
    if constexpr (sizeof...(A) > 0) {
      if constexpr (is_boxed<std::tuple_element_t<0, std::tuple<bare<A>...>>>) {
        handing.parent = stack[first].isInt() ? box_at(stack[first].toInt()) : nullptr;
      }
    }
    torch::jit::drop(stack, sizeof...(A));
    if constexpr (std::is_void_v<R>) {
      [[maybe_unused]] Guards guards;
      function(passed<A>(std::get<I>(held))...);
    } else {
      // After the function, which may call others of the module.
      decltype(auto) result = guarded<I...>(function, held);
      const HandingScope scope(handing);
      store(stack, std::forward<R>(result));
    }
  }

  template <size_t... I, class Held>
  static R guarded(F& function, [[maybe_unused]] Held& held) {
    [[maybe_unused]] Guards guards;
    return function(passed<A>(std::get<I>(held))...);
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
};

// An argument of a function: its type in JSON and in the schema, and whether it may be written.
struct Parameter {
  std::string json;
  c10::TypePtr wire;
  bool is_written;
};

// The signature of a function.
template <class Signature>
struct SchemaOf;

template <class R, class... A>
struct SchemaOf<R(A...)> {
  static std::vector<Parameter> parameters() {
    std::vector<Parameter> parameters;
    (parameters.push_back({Type<bare<A>>::describe(), Type<bare<A>>::wire(), is_written<A>}), ...);
    return parameters;
  }

  // The type of the result in JSON.
  static std::string result() {
    if constexpr (std::is_void_v<R>) {
      return json_text("none");
    } else {
      return Type<bare<R>>::describe();
    }
  }

  // The types of the results in the schema.
  static std::vector<c10::TypePtr> returned() {
    std::vector<c10::TypePtr> types;
    if constexpr (is_spread<bare<R>>) {
      spread(types, static_cast<bare<R>*>(nullptr));
    } else if constexpr (!std::is_void_v<R>) {
      types.push_back(Returned<bare<R>>::wire());
    }
    return types;
  }

 private:
  // A tensor that is handed over by reference, and not a constant one, may be written.
  template <class T>
  static constexpr bool is_written = std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>> &&
      (std::is_same_v<bare<T>, at::Tensor> || std::is_same_v<bare<T>, std::optional<at::Tensor>>);

  template <class... T>
  static void spread(std::vector<c10::TypePtr>& types, std::tuple<T...>*) {
    (types.push_back(Returned<bare<T>>::wire()), ...);
  }
  template <class First, class Second>
  static void spread(std::vector<c10::TypePtr>& types, std::pair<First, Second>*) {
    spread(types, static_cast<std::tuple<First, Second>*>(nullptr));
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
