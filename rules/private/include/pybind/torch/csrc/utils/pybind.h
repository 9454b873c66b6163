// In place of torch's, which has conversions for pybind11.
#pragma once

#include <pybind11/pybind11.h>

// What Python's headers and pybind11's bring in, and sources may use without a word.
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <forward_list>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <sstream>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>
#include <valarray>
#include <variant>

namespace torch {

// A function that `m.def` is given with this runs as it is.
template <class F>
auto wrap_pybind_function(F&& function) {
  return std::forward<F>(function);
}

// The same without the lock that stands for the GIL.
template <class R, class... A>
auto wrap_pybind_function_no_gil(R (*function)(A...)) {
  return [function](A... arguments) -> R {
    pybind11::gil_scoped_release released;
    return function(std::forward<A>(arguments)...);
  };
}

}  // namespace torch
