#include "csrc/portable.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

using at::Tensor;

Tensor scaled(const Tensor& input, double factor, const c10::optional<Tensor>& bias) {
  TORCH_CHECK(input.device().is_cpu(), "`input` is on ", input.device());
  const Tensor dense = input.contiguous();
  Tensor output = at::empty_like(dense, {}, at::MemoryFormat::Contiguous);
  if (bias.has_value()) {
    TORCH_CHECK(bias->sizes() == input.sizes(), "`bias` has the sizes ", bias->sizes());
    TORCH_CHECK(bias->dtype() == input.dtype(), "at::Tensor `bias` has another type");  // not at::Half alone
  }
  const Tensor added = bias.has_value() ? bias->contiguous() : at::zeros(input.sizes(), input.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dense.scalar_type(), "scaled", [&] {
    const auto* from = dense.data_ptr<scalar_t>();
    const auto* more = added.data_ptr<scalar_t>();
    auto* to = output.data_ptr<scalar_t>();
    for (int64_t index = 0; index < dense.numel(); ++index) {
      to[index] = static_cast<scalar_t>(static_cast<double>(from[index]) * factor + static_cast<double>(more[index]));
    }
  });
  return output;
}

void add_(Tensor& target, const Tensor& other, int64_t times) {
  TORCH_CHECK(target.is_contiguous() && target.scalar_type() == at::kFloat, "`target` is no dense float32");
  const Tensor dense = other.to(at::kFloat).contiguous();
  TORCH_CHECK(dense.numel() == target.numel(), "the sizes ", target.sizes(), " and ", other.sizes(), " differ");
  auto* to = target.data_ptr<float>();
  const auto* from = dense.data_ptr<float>();
  for (int64_t index = 0; index < dense.numel(); ++index) {
    to[index] += from[index] * static_cast<float>(times);
  }
}

std::vector<Tensor> halves(const Tensor& input, at::IntArrayRef shape) {
  Tensor flat = input.reshape({-1});
  const int64_t half = flat.numel() / 2;
  return {flat.narrow(0, 0, half).clone().view(shape), flat.narrow(0, half, half).clone().view(shape)};
}

std::tuple<Tensor, int64_t> counted(const Tensor& input) {
  Tensor count = at::empty({1}, input.options().dtype(at::kLong));
  count.fill_(0);
  count.data_ptr<int64_t>()[0] = input.numel();
  return {count, input.dim()};
}
