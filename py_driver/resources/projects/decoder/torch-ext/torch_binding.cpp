// Registers the ops with torch, and hands their tensors to the kernels as pointers.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>
[% include "projects/parts/device_headers.cpp" %]

#include <optional>
#include <tuple>

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

[% include "projects/parts/float_types.cpp" %]

[% include "projects/parts/call.cpp" %]

kernel::Shape shape_of(const at::Tensor& x) {
  TORCH_CHECK(x.dim() > 0 && x.size(-1) > 0, "[[ module ]]: the input has shape ", x.sizes());
  return {x.numel() / x.size(-1), x.size(-1)};
}

// Elements from one row to the next, if rows have dense elements and one distance from each to the next.
std::optional<std::int64_t> row_stride(const at::Tensor& tensor) {
  if (tensor.numel() == 0) {
    return 0;
  }
  if (tensor.size(-1) > 1 && tensor.stride(-1) != 1) {
    return std::nullopt;
  }
  std::int64_t stride = 0;  // of the rows that the dimensions so far have
  std::int64_t next = 0;    // that of the dimension before them
  for (std::int64_t dim = tensor.dim() - 2; dim >= 0; --dim) {
    if (tensor.size(dim) == 1) {
      continue;
    }
    if (next == 0) {
      stride = tensor.stride(dim);
    } else if (tensor.stride(dim) != next) {
      return std::nullopt;
    }
    next = tensor.stride(dim) * tensor.size(dim);
    if (next == 0) {
      return std::nullopt;  // rows that are one and the same
    }
  }
  return stride == 0 ? tensor.size(-1) : stride;
}

// `tensor`, or a dense copy if its rows have no common stride.
at::Tensor with_rows(const at::Tensor& tensor) { return row_stride(tensor) ? tensor : tensor.contiguous(); }

kernel::Rows rows_of(const at::Tensor& tensor) {
  return {const_cast<void*>(tensor.const_data_ptr()), *row_stride(tensor)};
}

// Fails unless the tensor has the type and the device of `x`, and a shape.
void check(const char* name, const at::Tensor& tensor, const at::Tensor& x, at::IntArrayRef sizes) {
  TORCH_CHECK(tensor.sizes() == sizes, "[[ module ]]: ", name, " has shape ", tensor.sizes(), ", not ", sizes);
  TORCH_CHECK(tensor.scalar_type() == x.scalar_type(), "[[ module ]]: ", name, " is ", tensor.scalar_type(), ", not ",
              x.scalar_type());
  TORCH_CHECK(tensor.device() == x.device(), "[[ module ]]: ", name, " is on ", tensor.device(), ", not ", x.device());
}

// A new tensor, dense, with the shape of another one.
at::Tensor dense_like(const at::Tensor& tensor) { return at::empty_like(tensor, at::MemoryFormat::Contiguous); }

// The norm of x, or of x + residual if there is one, and then the sum; and a float32 for each row.
std::tuple<at::Tensor, at::Tensor, at::Tensor> normalized(const at::Tensor& input, const at::Tensor* residual,
                                                          const at::Tensor& weight, double eps) {
  const kernel::Shape shape = shape_of(input);
  const kernel::Type type = type_of(input);
  check("weight", weight, input, {shape.columns});
  if (residual != nullptr) {
    check("residual", *residual, input, input.sizes());
  }
  const at::Tensor out = dense_like(input);
  const at::Tensor sum = residual != nullptr ? at::empty_like(out) : at::Tensor();
  const at::Tensor rstd = at::empty(input.sizes().slice(0, input.dim() - 1), input.options().dtype(at::kFloat));
  if (shape.rows > 0) {
    const at::Tensor x = with_rows(input);
    const at::Tensor other = residual != nullptr ? with_rows(*residual) : at::Tensor();
    const at::Tensor scale = weight.contiguous();
    const kernel::Norm tensors = {rows_of(out),
                                  residual != nullptr ? rows_of(sum) : kernel::Rows(),
                                  rstd.data_ptr<float>(),
                                  rows_of(x),
                                  residual != nullptr ? rows_of(other) : kernel::Rows(),
                                  scale.const_data_ptr(),
                                  static_cast<float>(eps)};
    call(x, [&](void* stream) { return kernel::norm(type, tensors, shape, stream); });
  }
  return {out, sum, rstd};
}

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const auto [out, sum, rstd] = normalized(x, nullptr, weight, eps);
  return {out, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& residual,
                                                            const at::Tensor& weight, double eps) {
  return normalized(x, &residual, weight, eps);
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad_out,
                                                     const std::optional<at::Tensor>& grad_sum, const at::Tensor& total,
                                                     const at::Tensor& rstd, const at::Tensor& weight) {
  const kernel::Shape shape = shape_of(total);
  const kernel::Type type = type_of(total);
  check("grad_out", grad_out, total, total.sizes());
  check("weight", weight, total, {shape.columns});
  if (grad_sum) {
    check("grad_sum", *grad_sum, total, total.sizes());
  }
  TORCH_CHECK(rstd.sizes() == total.sizes().slice(0, total.dim() - 1) && rstd.scalar_type() == at::kFloat &&
                  rstd.device() == total.device(),
              "[[ module ]]: rstd is not one float32 for each row");
  const at::Tensor grad_input = dense_like(total);
  const at::Tensor grad_weight = dense_like(weight);
  if (shape.rows == 0) {
    grad_weight.zero_();
    return {grad_input, grad_weight};
  }
  const at::Tensor of_out = with_rows(grad_out);
  const at::Tensor of_sum = grad_sum ? with_rows(*grad_sum) : at::Tensor();
  const at::Tensor values = with_rows(total);
  const at::Tensor rstds = rstd.contiguous();
  const at::Tensor scale = weight.contiguous();
  const at::Tensor partial = at::empty({kernel::partial_rows(shape), shape.columns}, rstds.options());
  const kernel::NormBackward tensors = {rows_of(grad_input),
                                        grad_weight.data_ptr(),
                                        partial.data_ptr<float>(),
                                        rows_of(of_out),
                                        grad_sum ? rows_of(of_sum) : kernel::Rows(),
                                        rows_of(values),
                                        rstds.const_data_ptr<float>(),
                                        scale.const_data_ptr()};
  call(values, [&](void* stream) { return kernel::norm_backward(type, tensors, shape, stream); });
  return {grad_input, grad_weight};
}

// cos or sin, with dense angles of a position.
at::Tensor angles(const char* name, const at::Tensor& tensor, const at::Tensor& q) {
  TORCH_CHECK(tensor.dim() == 3 && (tensor.size(0) == 1 || tensor.size(0) == q.size(0)) &&
                  tensor.size(1) == q.size(2) && 2 * tensor.size(2) == q.size(3) &&
                  tensor.scalar_type() == at::kFloat && tensor.device() == q.device(),
              "[[ module ]]: ", name, " is ", tensor.scalar_type(), " of shape ", tensor.sizes(),
              ", not float32 of shape [batch or 1, tokens, head size / 2]");
  return tensor.size(2) < 2 || tensor.stride(2) == 1 ? tensor : tensor.contiguous();
}

kernel::Heads heads_of(const at::Tensor& out, const at::Tensor& x) {
  return {out.data_ptr(), x.const_data_ptr(), x.size(1), {x.stride(0), x.stride(1), x.stride(2)}};
}

std::tuple<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                        const at::Tensor& sin, bool interleaved, bool inverse) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && q.size(3) % 2 == 0, "[[ module ]]: q has shape ", q.sizes(), ", k ",
              k.sizes(), ", not [batch, heads, tokens, an even head size]");
  check("k", k, q, {q.size(0), k.size(1), q.size(2), q.size(3)});
  TORCH_CHECK((q.size(1) + k.size(1)) * q.size(3) < std::int64_t{1} << 31, "[[ module ]]: q has ", q.size(1),
              " heads, k ", k.size(1));
  const kernel::Type type = type_of(q);
  const at::Tensor cosines = angles("cos", cos, q);
  const at::Tensor sines = angles("sin", sin, q);
  // What is computed lies as a projection leaves it: all heads of a token side by side.
  const auto empty = [](const at::Tensor& x) {
    return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options());
  };
  const at::Tensor turned_q = empty(q);
  const at::Tensor turned_k = empty(k);
  if (turned_q.numel() + turned_k.numel() > 0) {
    const at::Tensor queries = q.stride(3) == 1 ? q : q.contiguous();
    const at::Tensor keys = k.stride(3) == 1 ? k : k.contiguous();
    const auto batch_stride = [](const at::Tensor& of) { return of.size(0) == 1 ? 0 : of.stride(0); };
    const kernel::Rope tensors = {{heads_of(turned_q, queries), heads_of(turned_k, keys)},
                                  cosines.const_data_ptr<float>(),
                                  sines.const_data_ptr<float>(),
                                  {batch_stride(cosines), cosines.stride(1)},
                                  {batch_stride(sines), sines.stride(1)},
                                  q.size(0),
                                  q.size(2),
                                  q.size(3),
                                  interleaved,
                                  inverse};
    call(q, [&](void* stream) { return kernel::rope(type, tensors, stream); });
  }
  return {turned_q.transpose(1, 2), turned_k.transpose(1, 2)};
}

// The halves of each row of a tensor.
std::tuple<at::Tensor, at::Tensor> halves(const at::Tensor& x) {
  TORCH_CHECK(x.dim() > 0 && x.size(-1) % 2 == 0, "[[ module ]]: the input has shape ", x.sizes(),
              ", whose rows have no halves");
  const std::int64_t half = x.size(-1) / 2;
  return {x.narrow(-1, 0, half), x.narrow(-1, half, half)};
}

// A tensor without dimensions as a row, so that all have rows.
at::Tensor at_least_rows(const at::Tensor& x) { return x.dim() == 0 ? x.view({1}) : x; }

void run_swiglu(const at::Tensor& out, const at::Tensor& gate, const at::Tensor& up) {
  check("up", up, gate, gate.sizes());
  const kernel::Type type = type_of(gate);
  if (gate.numel() > 0) {
    const at::Tensor to = at_least_rows(out);
    const at::Tensor gates = with_rows(at_least_rows(gate));
    const at::Tensor ups = with_rows(at_least_rows(up));
    const kernel::Swiglu tensors = {rows_of(to), rows_of(gates), rows_of(ups)};
    call(gates, [&](void* stream) { return kernel::swiglu(type, tensors, shape_of(to), stream); });
  }
}

void run_swiglu_backward(const at::Tensor& grad_gate, const at::Tensor& grad_up, const at::Tensor& grad_out,
                         const at::Tensor& gate, const at::Tensor& up) {
  check("up", up, gate, gate.sizes());
  check("grad_out", grad_out, gate, gate.sizes());
  const kernel::Type type = type_of(gate);
  if (gate.numel() > 0) {
    const at::Tensor of_gate = at_least_rows(grad_gate);
    const at::Tensor of_up = at_least_rows(grad_up);
    const at::Tensor of_out = with_rows(at_least_rows(grad_out));
    const at::Tensor gates = with_rows(at_least_rows(gate));
    const at::Tensor ups = with_rows(at_least_rows(up));
    const kernel::SwigluBackward tensors = {rows_of(of_gate), rows_of(of_up), rows_of(of_out), rows_of(gates),
                                            rows_of(ups)};
    call(gates, [&](void* stream) { return kernel::swiglu_backward(type, tensors, shape_of(gates), stream); });
  }
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const at::Tensor out = dense_like(gate);
  run_swiglu(out, gate, up);
  return out;
}

at::Tensor swiglu_packed(const at::Tensor& x) {
  const auto [gate, up] = halves(x);
  return swiglu(gate, up);
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& grad_out, const at::Tensor& gate,
                                                   const at::Tensor& up) {
  const at::Tensor grad_gate = dense_like(gate);
  const at::Tensor grad_up = dense_like(gate);
  run_swiglu_backward(grad_gate, grad_up, grad_out, gate, up);
  return {grad_gate, grad_up};
}

at::Tensor swiglu_packed_backward(const at::Tensor& grad_out, const at::Tensor& x) {
  const auto [gate, up] = halves(x);
  const at::Tensor grad = dense_like(x);
  const auto [grad_gate, grad_up] = halves(grad);
  run_swiglu_backward(grad_gate, grad_up, grad_out, gate, up);
  return grad;
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

[% include "projects/parts/device.cpp" %]

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  // The backward of these is in the Python package.
  ops.def("rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)");
  ops.impl("rms_norm", DEVICE, &rms_norm);
  ops.def("add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor, Tensor, Tensor)");
  ops.impl("add_rms_norm", DEVICE, &add_rms_norm);
  ops.def(
      "rope(Tensor q, Tensor k, Tensor cos, Tensor sin, bool interleaved, bool inverse) -> (Tensor, Tensor)");
  ops.impl("rope", DEVICE, &rope);
  ops.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  ops.impl("swiglu", DEVICE, &swiglu);
  ops.def("swiglu_packed(Tensor x) -> Tensor");
  ops.impl("swiglu_packed", DEVICE, &swiglu_packed);
  // These refuse second derivatives.
  ops.def(
      "rms_norm_backward(Tensor grad_out, Tensor? grad_sum, Tensor total, Tensor rstd, Tensor weight)"
      " -> (Tensor, Tensor)");
  ops.impl("rms_norm_backward", DEVICE, &rms_norm_backward);
  ops.impl("rms_norm_backward", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
  ops.def("swiglu_backward(Tensor grad_out, Tensor gate, Tensor up) -> (Tensor, Tensor)");
  ops.impl("swiglu_backward", DEVICE, &swiglu_backward);
  ops.impl("swiglu_backward", c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
  ops.def("swiglu_packed_backward(Tensor grad_out, Tensor x) -> Tensor");
  ops.impl("swiglu_packed_backward", DEVICE, &swiglu_packed_backward);
  ops.impl("swiglu_packed_backward", c10::DispatchKey::Autograd,
           torch::CppFunction::makeFromBoxedFunction<&no_backward>());
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
