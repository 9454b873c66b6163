// In place of torch's, which includes Python's headers: all of torch in C++, and PYBIND11_MODULE without Python.
#pragma once

#ifndef TORCH_INDUCTOR_CPP_WRAPPER
#include <torch/all.h>
#endif
#include <torch/python.h>
