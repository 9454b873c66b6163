#include "../lib/headers.h"

__global__ void device(int *out) { *out = FROM_HEADERS; }
