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
