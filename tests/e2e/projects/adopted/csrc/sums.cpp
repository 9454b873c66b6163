#include <ATen/ATen.h>

#include <tuple>
#include <vector>

using OptionalTensor = std::optional<at::Tensor>;

std::tuple<at::Tensor, int> sums(const std::vector<at::Tensor>& tensors, std::vector<int> weights) {
  auto sum = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < tensors.size(); i++) {
    sum += tensors[i].sum() * weights.at(i);
  }
  return {sum, static_cast<int>(tensors.size())};
}

// Writes to `output`, and to `count` if it is there.
void fill(at::Tensor& output, float value, OptionalTensor& count) {
  output.fill_(value);
  if (count) count->fill_(output.numel());
}
