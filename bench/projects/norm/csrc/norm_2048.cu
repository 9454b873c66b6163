#include "norm.cuh"

DEFINE_NORM(2048)
