#pragma once
#include <torch/all.h>
#include <pybind11/pybind11.h>
namespace py = pybind11;
