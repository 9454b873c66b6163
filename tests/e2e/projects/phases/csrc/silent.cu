// A file without any external symbol: nvcc would take its process id for a name.
#include "kernels.h"

namespace {

__global__ void nothing(int* out) { *out = 0; }

struct Kept {
  Kept() : kernel(&nothing) {}
  void (*kernel)(int*);
};

Kept kept;

}  // namespace
