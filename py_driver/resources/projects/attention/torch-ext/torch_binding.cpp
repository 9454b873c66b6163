// Registers the ops with torch, and hands their tensors to the kernels as pointers.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
[% include "projects/parts/gpu_headers.cpp" %]

#include <cmath>
#include <tuple>

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

[% include "projects/parts/float_types.cpp" %]

// `tensor`, or a copy, so that all rows begin at multiples of 16 bytes if the width allows it.
at::Tensor readable(const at::Tensor& tensor) {
  const auto aligned = [&](std::int64_t elements) { return elements * tensor.element_size() % 16 == 0; };
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  bool as_is = tensor.numel() == 0 || (tensor.stride(3) == 1 && address % 16 == 0);
  for (std::int64_t i = 0; i < 3; ++i) {
    as_is = as_is && (tensor.size(i) == 1 || (tensor.stride(i) >= tensor.size(3) && aligned(tensor.stride(i))));
  }
  return as_is ? tensor : tensor.clone(at::MemoryFormat::Contiguous);
}

kernel::View view_of(const at::Tensor& tensor) {
  return {const_cast<void*>(tensor.const_data_ptr()), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

// What is computed lies as models go on with it: all heads of a row side by side.
at::Tensor empty_rows(const at::Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

kernel::Sizes sizes_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal, double scale) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "[[ module ]]: q has shape ", q.sizes(), ", k ", k.sizes(),
              ", v ", v.sizes(), ", not [batch, heads, rows, width]");
  TORCH_CHECK(k.sizes() == v.sizes(), "[[ module ]]: k has shape ", k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(q.size(0) == k.size(0) && q.size(3) == k.size(3), "[[ module ]]: q has shape ", q.sizes(), ", k ",
              k.sizes());
  TORCH_CHECK(q.size(1) == k.size(1) || (k.size(1) > 0 && q.size(1) % k.size(1) == 0), "[[ module ]]: q has ",
              q.size(1), " heads, no multiple of the ", k.size(1), " of k");
  TORCH_CHECK(q.size(3) > 0 && q.size(3) <= kernel::kMostWidth, "[[ module ]]: a head is ", q.size(3),
              " wide, not 1 to ", kernel::kMostWidth);
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(), "[[ module ]]: q is ",
              q.scalar_type(), ", k ", k.scalar_type(), ", v ", v.scalar_type());
  TORCH_CHECK(q.device() == k.device() && q.device() == v.device(), "[[ module ]]: tensors are on several devices");
  TORCH_CHECK(scale > 0 && std::isfinite(scale), "[[ module ]]: scale is ", scale, ", not a positive number");
  return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), causal, static_cast<float>(scale)};
}

[% include "projects/parts/call.cpp" %]

std::tuple<at::Tensor, at::Tensor> [[ module ]]_op(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                   bool causal, double scale) {
  const kernel::Sizes sizes = sizes_of(q, k, v, causal, scale);
  const kernel::Type type = type_of(q);
  const at::Tensor out = empty_rows(q);
  const at::Tensor lse = at::empty({sizes.batch, sizes.heads, sizes.queries}, q.options().dtype(at::kFloat));
  if (out.numel() > 0) {
    const at::Tensor queries = readable(q);
    const at::Tensor keys = readable(k);
    const at::Tensor values = readable(v);
    call(q, [&](void* stream) {
      const at::Tensor scratch = at::empty({kernel::forward_scratch(type, sizes)}, lse.options());
      const kernel::Forward tensors = {view_of(out),  lse.data_ptr<float>(), view_of(queries),
                                       view_of(keys), view_of(values),       scratch.data_ptr<float>()};
      return kernel::forward(type, tensors, sizes, stream);
    });
  }
  return {out, lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> [[ module ]]_backward_op(const at::Tensor& grad_out, const at::Tensor& q,
                                                                        const at::Tensor& k, const at::Tensor& v,
                                                                        const at::Tensor& out, const at::Tensor& lse,
                                                                        bool causal, double scale) {
  const kernel::Sizes sizes = sizes_of(q, k, v, causal, scale);
  const kernel::Type type = type_of(q);
  for (const at::Tensor& tensor : {grad_out, out}) {
    TORCH_CHECK(tensor.sizes() == q.sizes() && tensor.scalar_type() == q.scalar_type() && tensor.device() == q.device(),
                "[[ module ]]: the output or its gradient is not like q");
  }
  TORCH_CHECK(lse.sizes() == q.sizes().slice(0, 3) && lse.scalar_type() == at::kFloat && lse.device() == q.device(),
              "[[ module ]]: lse is not one float32 for each query");
  const at::Tensor grad_q = empty_rows(q);
  const at::Tensor grad_k = empty_rows(k);
  const at::Tensor grad_v = empty_rows(v);
  if (q.numel() == 0) {
    grad_k.zero_();
    grad_v.zero_();
  } else {
    const at::Tensor grads = readable(grad_out);
    const at::Tensor outs = readable(out);
    const at::Tensor statistic = lse.contiguous();
    const at::Tensor queries = readable(q);
    const at::Tensor keys = readable(k);
    const at::Tensor values = readable(v);
    call(q, [&](void* stream) {
      const at::Tensor scratch = at::empty({kernel::backward_scratch(type, sizes)}, statistic.options());
      const kernel::Backward tensors = {
          view_of(grad_q),
          view_of(grad_k),
          view_of(grad_v),
          view_of(grads),
          view_of(outs),
          statistic.const_data_ptr<float>(),
          view_of(queries),
          view_of(keys),
          view_of(values),
          scratch.data_ptr<float>(),
          at::globalContext().deterministicAlgorithms() && !at::globalContext().deterministicAlgorithmsWarnOnly()};
      return kernel::backward(type, tensors, sizes, stream);
    });
  }
  return {grad_q, grad_k, grad_v};
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  // Its backward is in the Python package.
  ops.def("[[ module ]](Tensor q, Tensor k, Tensor v, bool causal, float scale) -> (Tensor, Tensor)");
[% include "projects/parts/implementations.cpp" %]
  ops.def(
      "[[ module ]]_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, bool causal, "
      "float scale) -> (Tensor, Tensor, Tensor)");
  ops.impl("[[ module ]]_backward", c10::DispatchKey::Autograd,
           torch::CppFunction::makeFromBoxedFunction<&no_backward>());
[% set suffix = "_backward" %]
[% include "projects/parts/implementations.cpp" %]
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
