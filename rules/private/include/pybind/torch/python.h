// In place of torch's, for sources that are compiled without Python's headers.
#pragma once

#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>

#include <iterator>
#include <string>
#include <utility>
