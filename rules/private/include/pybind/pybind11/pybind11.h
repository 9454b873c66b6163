// In place of pybind11: see rules_torch_kernels/binding.h.
#pragma once
#include "../rules_torch_kernels/binding.h"
