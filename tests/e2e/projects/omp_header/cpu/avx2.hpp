#pragma once

#include <omp.h>

#include <cstdint>

inline int64_t largest_team() { return omp_get_max_threads(); }

int64_t team();
