// Ops of the kinds that a source for torch has: in place, with None, with lists, with several results.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>
#include <vector>

at::Tensor scaled(const at::Tensor& input, double factor, const c10::optional<at::Tensor>& bias);
void add_(at::Tensor& target, const at::Tensor& other, int64_t times);
std::vector<at::Tensor> halves(const at::Tensor& input, at::IntArrayRef shape);
std::tuple<at::Tensor, int64_t> counted(const at::Tensor& input);
