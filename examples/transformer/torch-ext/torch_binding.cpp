// Registers the ops with torch, and hands their tensors to the kernels as pointers.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#ifndef CPU_KERNEL
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include <optional>
#include <tuple>

#include "registration.h"
#include "transformer.h"

namespace {

namespace kernel = transformer_impl;

kernel::Type type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return kernel::Type::float32;
    case at::kHalf:
      return kernel::Type::float16;
    case at::kBFloat16:
      return kernel::Type::bfloat16;
    default:
      TORCH_CHECK(false, "transformer: no kernel for ", tensor.scalar_type());
  }
}

// Calls the kernel on the device of a tensor, with the current stream there.
template <class Call>
void call(const at::Tensor& tensor, Call function) {
#ifdef CPU_KERNEL
  function(nullptr);
#else
  const c10::cuda::CUDAGuard guard(tensor.device());
  C10_CUDA_CHECK(static_cast<cudaError_t>(function(c10::cuda::getCurrentCUDAStream().stream())));
#endif
}

kernel::Shape shape_of(const at::Tensor& x) {
  TORCH_CHECK(x.dim() > 0 && x.size(-1) > 0, "rms_norm: the input has shape ", x.sizes());
  return {x.numel() / x.size(-1), x.size(-1)};
}

// `tensor`, dense; it must have the type and the device of `x`, and a shape.
at::Tensor checked(const char* name, const at::Tensor& tensor, const at::Tensor& x, at::IntArrayRef sizes) {
  TORCH_CHECK(tensor.sizes() == sizes, "transformer: ", name, " has shape ", tensor.sizes(), ", not ", sizes);
  TORCH_CHECK(tensor.scalar_type() == x.scalar_type(), "transformer: ", name, " is ", tensor.scalar_type(), ", not ",
              x.scalar_type());
  TORCH_CHECK(tensor.device() == x.device(), "transformer: ", name, " is on ", tensor.device(), ", not ", x.device());
  return tensor.contiguous();
}

at::Tensor statistic_of(const at::Tensor& x) {
  return at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(at::kFloat));
}

void normalize(const kernel::Norm& tensors, const at::Tensor& x) {
  const kernel::Shape shape = shape_of(x);
  if (shape.rows > 0) {
    call(x, [&](void* stream) { return kernel::norm(type_of(x), tensors, shape, stream); });
  }
}

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& input, const at::Tensor& weight, double eps) {
  const at::Tensor x = input.contiguous();
  const at::Tensor scale = checked("weight", weight, x, {shape_of(x).columns});
  type_of(x);
  const at::Tensor out = at::empty_like(x);
  const at::Tensor rstd = statistic_of(x);
  normalize({out.data_ptr(), nullptr, rstd.data_ptr<float>(), x.const_data_ptr(), nullptr, scale.const_data_ptr(),
             static_cast<float>(eps)},
            x);
  return {out, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& input, const at::Tensor& residual,
                                                            const at::Tensor& weight, double eps) {
  const at::Tensor x = input.contiguous();
  const at::Tensor other = checked("residual", residual, x, x.sizes());
  const at::Tensor scale = checked("weight", weight, x, {shape_of(x).columns});
  type_of(x);
  const at::Tensor out = at::empty_like(x);
  const at::Tensor sum = at::empty_like(x);
  const at::Tensor rstd = statistic_of(x);
  normalize({out.data_ptr(), sum.data_ptr(), rstd.data_ptr<float>(), x.const_data_ptr(), other.const_data_ptr(),
             scale.const_data_ptr(), static_cast<float>(eps)},
            x);
  return {out, sum, rstd};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad_out,
                                                     const std::optional<at::Tensor>& grad_sum, const at::Tensor& total,
                                                     const at::Tensor& rstd, const at::Tensor& weight) {
  const at::Tensor values = total.contiguous();
  const kernel::Shape shape = shape_of(values);
  const kernel::Type type = type_of(values);
  const at::Tensor of_out = checked("grad_out", grad_out, values, values.sizes());
  const at::Tensor of_sum = grad_sum ? checked("grad_sum", *grad_sum, values, values.sizes()) : at::Tensor();
  const at::Tensor scale = checked("weight", weight, values, {shape.columns});
  TORCH_CHECK(rstd.sizes() == values.sizes().slice(0, values.dim() - 1) && rstd.scalar_type() == at::kFloat &&
                  rstd.device() == values.device(),
              "transformer: rstd is not one float32 for each row");
  const at::Tensor rstds = rstd.contiguous();
  const at::Tensor grad_input = at::empty_like(values);
  const at::Tensor grad_weight = at::empty_like(scale);
  if (shape.rows == 0) {
    grad_weight.zero_();
  } else {
    const at::Tensor partial = at::empty({kernel::partial_rows(shape), shape.columns}, rstds.options());
    const kernel::NormBackward tensors = {
        grad_input.data_ptr(),     grad_weight.data_ptr(),   partial.data_ptr<float>(),
        of_out.const_data_ptr(),   grad_sum ? of_sum.const_data_ptr() : nullptr,
        values.const_data_ptr(),   rstds.const_data_ptr<float>(), scale.const_data_ptr()};
    call(values, [&](void* stream) { return kernel::norm_backward(type, tensors, shape, stream); });
  }
  return {grad_input, grad_weight};
}

// One tensor of heads, turned: (batch, heads, tokens, size), which lies in memory as (batch, tokens, heads, size).
at::Tensor turned(const char* name, const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin,
                  bool inverse) {
  TORCH_CHECK(input.dim() == 4 && input.size(3) % 2 == 0, "rope: ", name, " has shape ", input.sizes(),
              ", not (batch, heads, tokens, an even head size)");
  const at::Tensor x = input.stride(3) == 1 ? input : input.contiguous();
  TORCH_CHECK(cos.dim() == 3 && (cos.size(0) == 1 || cos.size(0) == x.size(0)), "rope: cos has shape ", cos.sizes(),
              ", not (batch or 1, tokens, head size)");
  const at::Tensor cosines = checked("cos", cos, x, {cos.size(0), x.size(2), x.size(3)});
  const at::Tensor sines = checked("sin", sin, x, cos.sizes());
  const kernel::Type type = type_of(x);
  const at::Tensor out = at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options());
  if (out.numel() > 0) {
    const kernel::Heads heads = {x.size(0), x.size(1), x.size(2), x.size(3), {x.stride(0), x.stride(1), x.stride(2)}};
    const kernel::Rope tensors = {out.data_ptr(),         x.const_data_ptr(), cosines.const_data_ptr(),
                                  sines.const_data_ptr(), cos.size(0) > 1,    inverse};
    call(x, [&](void* stream) { return kernel::rope(type, tensors, heads, stream); });
  }
  return out.transpose(1, 2);
}

std::tuple<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                        const at::Tensor& sin, bool inverse) {
  return {turned("q", q, cos, sin, inverse), turned("k", k, cos, sin, inverse)};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const at::Tensor x = gate.contiguous();
  const at::Tensor by = checked("up", up, x, x.sizes());
  const kernel::Type type = type_of(x);
  const at::Tensor out = at::empty_like(x);
  if (x.numel() > 0) {
    const kernel::Swiglu tensors = {out.data_ptr(), x.const_data_ptr(), by.const_data_ptr()};
    call(x, [&](void* stream) { return kernel::swiglu(type, tensors, x.numel(), stream); });
  }
  return out;
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& grad_out, const at::Tensor& gate,
                                                   const at::Tensor& up) {
  const at::Tensor x = gate.contiguous();
  const at::Tensor by = checked("up", up, x, x.sizes());
  const at::Tensor of_out = checked("grad_out", grad_out, x, x.sizes());
  const kernel::Type type = type_of(x);
  const at::Tensor of_gate = at::empty_like(x);
  const at::Tensor of_up = at::empty_like(x);
  if (x.numel() > 0) {
    const kernel::SwigluBackward tensors = {of_gate.data_ptr(), of_up.data_ptr(), of_out.const_data_ptr(),
                                            x.const_data_ptr(), by.const_data_ptr()};
    call(x, [&](void* stream) { return kernel::swiglu_backward(type, tensors, x.numel(), stream); });
  }
  return {of_gate, of_up};
}

// Stands before an op that has no backward. Without it torch would let training go on, and leave gradients out.
void no_backward(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const bool records = c10::GradMode::is_enabled();
  for (const c10::IValue& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      const std::string& name = op.operator_name().name;
      TORCH_CHECK(!(records && tensor.requires_grad()) && !tensor._fw_grad(0).defined(),
                  name.substr(name.rfind(':') + 1),
                  ": the op has no backward, but a tensor requires grad: call it under torch.no_grad(), pass "
                  "tensor.detach(), or register a backward for it");
    }
  }
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

}  // namespace

#ifdef CPU_KERNEL
#define DEVICE_KEY c10::kCPU
#else
#define DEVICE_KEY c10::kCUDA
#endif

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  // The backward of these is in the Python package.
  ops.def("rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)");
  ops.impl("rms_norm", DEVICE_KEY, &rms_norm);
  ops.def("add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor, Tensor, Tensor)");
  ops.impl("add_rms_norm", DEVICE_KEY, &add_rms_norm);
  ops.def("rope(Tensor q, Tensor k, Tensor cos, Tensor sin, bool inverse) -> (Tensor, Tensor)");
  ops.impl("rope", DEVICE_KEY, &rope);
  ops.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  ops.impl("swiglu", DEVICE_KEY, &swiglu);
  // These refuse second derivatives.
  ops.def(
      "rms_norm_backward(Tensor grad_out, Tensor? grad_sum, Tensor total, Tensor rstd, Tensor weight)"
      " -> (Tensor, Tensor)");
  ops.impl("rms_norm_backward", DEVICE_KEY, &rms_norm_backward);
  ops.impl("rms_norm_backward", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
  ops.def("swiglu_backward(Tensor grad_out, Tensor gate, Tensor up) -> (Tensor, Tensor)");
  ops.impl("swiglu_backward", DEVICE_KEY, &swiglu_backward);
  ops.impl("swiglu_backward", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
