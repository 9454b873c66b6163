#pragma once

#include <cstdint>

/// Calls of the thread that calls; a variable of another source.
extern thread_local int64_t seen;

/// Counts a call of the thread that calls.
int64_t step();

/// How often the same was set up by several threads at once.
int64_t once();

/// How many of `size` numbers a parallel_for of torch met, each counted by the thread that had it.
int64_t parallel(int64_t size);

/// The same where the source is compiled with OpenMP, plus the threads of a region of its own.
int64_t openmp(int64_t size);
