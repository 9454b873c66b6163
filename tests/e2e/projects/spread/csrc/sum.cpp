#include "sum.h"

#include <ATen/core/Tensor.h>

#include "../lib/scale.hpp"
#include "detail.inc"

int sum(int count) {
  at::Tensor none;
  return none.defined() ? 0 : scale(count) + DETAIL;
}
