#include <torch/all.h>

#include <iostream>
#include <sstream>

static __global__ void nothing(int* out) { *out = 0; }

std::string printed(const torch::Tensor& in, torch::Tensor& out) {
  nothing<<<1, 1>>>(out.data_ptr<int>());
  std::ostringstream stream;
  stream << in << " " << in.sizes() << " " << in.scalar_type() << " " << in.device();
  return stream.str();
}
