#pragma once

#include <cstdint>

// The threads of a team, those that a team may have, and whether the source that counts them was compiled with OpenMP.
void count(int64_t* team, int64_t* largest, bool* with_openmp);
