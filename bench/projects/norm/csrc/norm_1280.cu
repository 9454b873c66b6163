#include "norm.cuh"

DEFINE_NORM(1280)
