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

// A warning that Python's filters have made an exception of, by the number under which the module's Python file keeps that.
struct RaisedWarning final : std::runtime_error {
  explicit RaisedWarning(int64_t kept) : std::runtime_error("a warning of Python is an error"), number(kept) {}
  int64_t number;
};

// The warnings of a call, which the module's Python file issues as soon as the call ends, as torch's own code does. Those of
// other threads go where they went.
class Warnings {
 public:
  Warnings() = default;
  // Throws RaisedWarning if a warning is an exception, and the call itself has thrown none.
  ~Warnings() noexcept(false);
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  c10::WarningHandler* handler() {
    return &buffer_;
  }
  void failed() {
    failed_ = true;
  }

 private:
  struct Buffer final : c10::WarningHandler {
    void process(const c10::Warning& warning) override;
    std::vector<c10::Warning> warnings;
  };

  Buffer buffer_;
  bool failed_ = false;
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
    Warnings warnings;
    const c10::WarningUtils::WarningHandlerGuard handler(warnings.handler());
    try {
      [[maybe_unused]] const Guard guard;
      return std::invoke(function_, std::forward<A>(arguments)...);
    } catch (...) {
      warnings.failed();
      throw_as_torch();
    }
  }

 private:
  F function_;
};

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
