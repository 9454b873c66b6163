// Registers the ops with torch, and hands their tensors to the kernels as pointers.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
[% include "projects/parts/device_headers.cpp" %]

#include <cmath>
#include <cstdint>
#include <limits>
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

// The output and the log-sum-exps. `sequences`: null if there are none.
std::tuple<at::Tensor, at::Tensor> attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                          const kernel::Sizes& sizes, const kernel::Sequences* sequences) {
  const kernel::Type type = type_of(q);
  const at::Tensor out = empty_rows(q);
  const at::Tensor lse = at::empty({sizes.batch, sizes.heads, sizes.queries}, q.options().dtype(at::kFloat));
  if (out.numel() > 0) {
    const at::Tensor queries = readable(q);
    const at::Tensor keys = readable(k);
    const at::Tensor values = readable(v);
    call(q, [&](void* stream) {
      const at::Tensor scratch = at::empty({kernel::forward_scratch(type, sizes, sequences)}, lse.options());
      const kernel::Forward tensors = {view_of(out),     lse.data_ptr<float>(), sizes.queries,
                                       view_of(queries), view_of(keys),         view_of(values),
                                       scratch.data_ptr<float>()};
      return kernel::forward(type, tensors, sizes, sequences, stream);
    });
  }
  return {out, lse};
}

// The gradients of q, k and v.
std::tuple<at::Tensor, at::Tensor, at::Tensor> differentiate(const at::Tensor& grad_out, const at::Tensor& q,
                                                             const at::Tensor& k, const at::Tensor& v,
                                                             const at::Tensor& out, const at::Tensor& lse,
                                                             const kernel::Sizes& sizes,
                                                             const kernel::Sequences* sequences) {
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
      const at::Tensor scratch = at::empty({kernel::backward_scratch(type, sizes, sequences)}, statistic.options());
      const kernel::Backward tensors = {
          view_of(grad_q),
          view_of(grad_k),
          view_of(grad_v),
          view_of(grads),
          view_of(outs),
          statistic.const_data_ptr<float>(),
          sizes.queries,
          view_of(queries),
          view_of(keys),
          view_of(values),
          scratch.data_ptr<float>(),
          at::globalContext().deterministicAlgorithms() && !at::globalContext().deterministicAlgorithmsWarnOnly()};
      return kernel::backward(type, tensors, sizes, sequences, stream);
    });
  }
  return {grad_q, grad_k, grad_v};
}

std::tuple<at::Tensor, at::Tensor> [[ module ]]_op(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                   bool causal, double scale) {
  return attend(q, k, v, sizes_of(q, k, v, causal, scale), nullptr);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> [[ module ]]_backward_op(const at::Tensor& grad_out, const at::Tensor& q,
                                                                        const at::Tensor& k, const at::Tensor& v,
                                                                        const at::Tensor& out, const at::Tensor& lse,
                                                                        bool causal, double scale) {
  return differentiate(grad_out, q, k, v, out, lse, sizes_of(q, k, v, causal, scale), nullptr);
}

// Rows of sequences, [rows, heads, width], as those of one batch, and back.
at::Tensor as_batch(const at::Tensor& rows) {
  TORCH_CHECK(rows.dim() == 3, "[[ module ]]: a tensor has shape ", rows.sizes(), ", not [rows, heads, width]");
  TORCH_CHECK(rows.size(0) <= std::numeric_limits<std::int32_t>::max(), "[[ module ]]: int32 cannot count ",
              rows.size(0), " rows");
  return rows.transpose(0, 1).unsqueeze(0);
}

at::Tensor as_rows(const at::Tensor& batch) { return batch.squeeze(0).transpose(0, 1); }

// Where the sequences of q or k begin.
at::Tensor offsets_of(const at::Tensor& offsets, const at::Tensor& rows, std::int64_t longest) {
  TORCH_CHECK(offsets.dim() == 1 && offsets.size(0) > 0 && offsets.scalar_type() == at::kInt,
              "[[ module ]]: offsets have shape ", offsets.sizes(), " and type ", offsets.scalar_type(),
              ", not [sequences + 1] and Int");
  TORCH_CHECK(offsets.device() == rows.device(), "[[ module ]]: offsets are on another device");
  const at::Tensor dense = offsets.contiguous();
  // A GPU would have to end all work for this.
  if (dense.is_cpu()) {
    const auto* const begins = dense.const_data_ptr<std::int32_t>();
    TORCH_CHECK(begins[0] == 0 && begins[dense.size(0) - 1] <= rows.size(0), "[[ module ]]: offsets go from ",
                begins[0], " to ", begins[dense.size(0) - 1], ", not from 0 to at most ", rows.size(0));
    for (std::int64_t i = 1; i < dense.size(0); ++i) {
      const std::int64_t length = std::int64_t{begins[i]} - begins[i - 1];
      TORCH_CHECK(length >= 0 && length <= longest, "[[ module ]]: a sequence has ", length, " rows, not 0 to ", longest);
    }
  }
  return dense;
}

kernel::Sequences sequences_of(const at::Tensor& q, const at::Tensor& k) {
  TORCH_CHECK(q.sizes() == k.sizes(), "[[ module ]]: q has ", q.size(0) - 1, " sequences, k ", k.size(0) - 1);
  return {q.const_data_ptr<std::int32_t>(), k.const_data_ptr<std::int32_t>(), q.size(0) - 1};
}

std::tuple<at::Tensor, at::Tensor> [[ module ]]_varlen_op(const at::Tensor& q, const at::Tensor& k,
                                                          const at::Tensor& v, const at::Tensor& cu_seqlens_q,
                                                          const at::Tensor& cu_seqlens_k, std::int64_t max_seqlen_q,
                                                          std::int64_t max_seqlen_k, bool causal, double scale) {
  const at::Tensor queries = as_batch(q);
  const at::Tensor keys = as_batch(k);
  const at::Tensor values = as_batch(v);
  const kernel::Sizes sizes = sizes_of(queries, keys, values, causal, scale);
  const at::Tensor begins_q = offsets_of(cu_seqlens_q, q, max_seqlen_q);
  const at::Tensor begins_k = offsets_of(cu_seqlens_k, k, max_seqlen_k);
  const kernel::Sequences sequences = sequences_of(begins_q, begins_k);
  const auto [out, lse] = attend(queries, keys, values, sizes, &sequences);
  return {as_rows(out), lse.squeeze(0)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> [[ module ]]_varlen_backward_op(
    const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
    const at::Tensor& lse, const at::Tensor& cu_seqlens_q, const at::Tensor& cu_seqlens_k, std::int64_t max_seqlen_q,
    std::int64_t max_seqlen_k, bool causal, double scale) {
  const at::Tensor queries = as_batch(q);
  const at::Tensor keys = as_batch(k);
  const at::Tensor values = as_batch(v);
  const kernel::Sizes sizes = sizes_of(queries, keys, values, causal, scale);
  const at::Tensor begins_q = offsets_of(cu_seqlens_q, q, max_seqlen_q);
  const at::Tensor begins_k = offsets_of(cu_seqlens_k, k, max_seqlen_k);
  const kernel::Sequences sequences = sequences_of(begins_q, begins_k);
  const auto [grad_q, grad_k, grad_v] = differentiate(as_batch(grad_out), queries, keys, values, as_batch(out),
                                                      lse.unsqueeze(0), sizes, &sequences);
  return {as_rows(grad_q), as_rows(grad_k), as_rows(grad_v)};
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
  // The same for sequences of several lengths, one after another.
  ops.def(
      "[[ module ]]_varlen(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, "
      "SymInt max_seqlen_q, SymInt max_seqlen_k, bool causal, float scale) -> (Tensor, Tensor)");
[% set suffix = "_varlen" %]
[% include "projects/parts/implementations.cpp" %]
  ops.def(
      "[[ module ]]_varlen_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
      "Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, bool causal, float scale) "
      "-> (Tensor, Tensor, Tensor)");
  ops.impl("[[ module ]]_varlen_backward", c10::DispatchKey::Autograd,
           torch::CppFunction::makeFromBoxedFunction<&no_backward>());
[% set suffix = "_varlen_backward" %]
[% include "projects/parts/implementations.cpp" %]
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
