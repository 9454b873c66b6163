// `torch::wrap_pybind_function`: errors and warnings as torch's own functions have them.
#pragma once
#pragma GCC system_header

#include <c10/util/Exception.h>

#include <functional>

#include "function.h"

namespace rules_torch_kernels {
namespace binding {

// What any exception of C++ becomes that is neither torch's nor names one of Python's: a RuntimeError, whatever the module has
// registered for its type.
struct PlainError final : c10::Error {
  explicit PlainError(const std::exception& problem) : c10::Error(std::string(problem.what()), {}) {}
};

// Throws what torch makes of the exception that is handled.
[[noreturn]] void throw_as_torch();

// Warnings of a call, which the module's Python file issues after it. Those of other threads go where they went.
class WarningBuffer final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override;
};

struct Nothing {};

// A function of the author's with this around each call.
template <class F, class Guard, class Signature>
class Wrapped;
template <class F, class Guard, class R, class... A>
class Wrapped<F, Guard, R(A...)> {
 public:
  explicit Wrapped(F function) : function_(std::move(function)) {}

  R operator()(A... arguments) const {
    WarningBuffer buffer;
    const c10::WarningUtils::WarningHandlerGuard handler(&buffer);
    try {
      [[maybe_unused]] const Guard guard;
      return std::invoke(function_, std::forward<A>(arguments)...);
    } catch (...) {
      throw_as_torch();
    }
  }

 private:
  F function_;
};

template <class T>
inline constexpr bool is_wrapped = false;
template <class F, class Guard, class Signature>
inline constexpr bool is_wrapped<Wrapped<F, Guard, Signature>> = true;

// The signature of what std::invoke calls: a member function has its object first.
template <class F>
struct Invoked : SignatureOf<F> {};
template <class R, class C, class... A>
struct Invoked<R (C::*)(A...)> : Called<R(C&, A...)> {};
template <class R, class C, class... A>
struct Invoked<R (C::*)(A...) const> : Called<R(const C&, A...)> {};

template <class Guard, class F>
auto wrapped(F&& function) {
  using Held = std::decay_t<F>;
  return Wrapped<Held, Guard, typename Invoked<Held>::signature>(std::forward<F>(function));
}

}  // namespace binding
}  // namespace rules_torch_kernels

namespace torch {

template <class F>
auto wrap_pybind_function(F&& function) {
  return ::rules_torch_kernels::binding::wrapped<::rules_torch_kernels::binding::Nothing>(std::forward<F>(function));
}

// The same without the lock that stands for the GIL.
template <class F>
auto wrap_pybind_function_no_gil(F&& function) {
  return ::rules_torch_kernels::binding::wrapped<pybind11::gil_scoped_release>(std::forward<F>(function));
}

}  // namespace torch
