#include "norm.cuh"

DEFINE_NORM(128)
