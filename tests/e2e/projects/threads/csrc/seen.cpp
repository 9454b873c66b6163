#include "threads.h"

thread_local int64_t seen = 0;
