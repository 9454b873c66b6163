// Registers the ops with torch, and hands their tensors to the kernels as pointers.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>
[% include "projects/parts/device_headers.cpp" %]

#include <tuple>

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

[% include "projects/parts/float_types.cpp" %]

kernel::Shape shape_of(const at::Tensor& x) {
  TORCH_CHECK(x.dim() > 0 && x.size(-1) > 0, "[[ module ]]: the input has shape ", x.sizes());
  return {x.numel() / x.size(-1), x.size(-1)};
}

// `tensor`, dense; it must have the type and the device of `x`, and a shape.
at::Tensor checked(const char* name, const at::Tensor& tensor, const at::Tensor& x, at::IntArrayRef sizes) {
  TORCH_CHECK(tensor.sizes() == sizes, "[[ module ]]: ", name, " has shape ", tensor.sizes(), ", not ", sizes);
  TORCH_CHECK(tensor.scalar_type() == x.scalar_type(), "[[ module ]]: ", name, " is ", tensor.scalar_type(), ", not ",
              x.scalar_type());
  TORCH_CHECK(tensor.device() == x.device(), "[[ module ]]: ", name, " is on ", tensor.device(), ", not ", x.device());
  return tensor.contiguous();
}

at::Tensor checked_statistic(const char* name, const at::Tensor& tensor, const at::Tensor& x) {
  TORCH_CHECK(tensor.sizes() == x.sizes().slice(0, x.dim() - 1) && tensor.scalar_type() == at::kFloat &&
                  tensor.device() == x.device(),
              "[[ module ]]: ", name, " is not one float32 for each row");
  return tensor.contiguous();
}

[% include "projects/parts/call.cpp" %]

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> [[ module ]]_op(const at::Tensor& input,
                                                                           const at::Tensor& residual,
                                                                           const at::Tensor& weight,
                                                                           const at::Tensor& bias, double eps) {
  const kernel::Shape shape = shape_of(input);
  const kernel::Type type = type_of(input);
  const at::Tensor x = input.contiguous();
  const at::Tensor other = checked("residual", residual, x, x.sizes());
  const at::Tensor scale = checked("weight", weight, x, {shape.columns});
  const at::Tensor shift = checked("bias", bias, x, {shape.columns});
  const at::Tensor out = at::empty_like(x);
  const at::Tensor sum = at::empty_like(x);
  const auto statistic = x.sizes().slice(0, x.dim() - 1);
  const at::Tensor mean = at::empty(statistic, x.options().dtype(at::kFloat));
  const at::Tensor rstd = at::empty_like(mean);
  if (shape.rows > 0) {
    const kernel::Forward tensors = {
        out.data_ptr(),        sum.data_ptr(),          mean.data_ptr<float>(),   rstd.data_ptr<float>(),
        x.const_data_ptr(),    other.const_data_ptr(),  scale.const_data_ptr(),   shift.const_data_ptr(),
        static_cast<float>(eps)};
    call(x, [&](void* stream) { return kernel::forward(type, tensors, shape, stream); });
  }
  return {out, sum, mean, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> [[ module ]]_backward_op(const at::Tensor& grad_out,
                                                                        const at::Tensor& grad_sum,
                                                                        const at::Tensor& sum, const at::Tensor& mean,
                                                                        const at::Tensor& rstd,
                                                                        const at::Tensor& weight) {
  const kernel::Shape shape = shape_of(sum);
  const kernel::Type type = type_of(sum);
  const at::Tensor values = sum.contiguous();
  const at::Tensor of_out = checked("grad_out", grad_out, values, values.sizes());
  const at::Tensor of_sum = checked("grad_sum", grad_sum, values, values.sizes());
  const at::Tensor scale = checked("weight", weight, values, {shape.columns});
  const at::Tensor means = checked_statistic("mean", mean, values);
  const at::Tensor rstds = checked_statistic("rstd", rstd, values);
  const at::Tensor grad_input = at::empty_like(values);
  const at::Tensor grad_weight = at::empty_like(scale);
  const at::Tensor grad_bias = at::empty_like(scale);
  if (shape.rows == 0) {
    grad_weight.zero_();
    grad_bias.zero_();
  } else {
    const at::Tensor partial = at::empty({2 * kernel::partial_rows(type, shape), shape.columns}, means.options());
    const kernel::Backward tensors = {
        grad_input.data_ptr(),        grad_weight.data_ptr(),   grad_bias.data_ptr(),
        partial.data_ptr<float>(),    of_out.const_data_ptr(),  of_sum.const_data_ptr(),
        values.const_data_ptr(),      means.const_data_ptr<float>(), rstds.const_data_ptr<float>(),
        scale.const_data_ptr()};
    call(values, [&](void* stream) { return kernel::backward(type, tensors, shape, stream); });
  }
  return {grad_input, grad_weight, grad_bias};
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  // Its backward is in the Python package.
  ops.def(
      "[[ module ]](Tensor x, Tensor residual, Tensor weight, Tensor bias, float eps) -> "
      "(Tensor, Tensor, Tensor, Tensor)");
[% include "projects/parts/implementations.cpp" %]
  ops.def(
      "[[ module ]]_backward(Tensor grad_out, Tensor grad_sum, Tensor sum, Tensor mean, Tensor rstd, Tensor weight)"
      " -> (Tensor, Tensor, Tensor)");
  ops.impl("[[ module ]]_backward", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
[% set suffix = "_backward" %]
[% include "projects/parts/implementations.cpp" %]
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
