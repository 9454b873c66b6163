#include <torch/all.h>

#include "through_header.cuh"

void through_header(const at::Tensor& in, at::Tensor& out) {
  launch<float>(in, out);
  launch<double>(in, out);
}
