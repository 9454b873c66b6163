// Registers the ops with torch, and hands their tensors to the kernels as pointers.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
[% include "projects/parts/device_headers.cpp" %]

#include <limits>
#include <optional>
#include <tuple>

#include "[[ module ]].h"
#include "registration.h"

namespace {

namespace kernel = [[ module ]]_impl;

[% include "projects/parts/float_types.cpp" %]

[% include "projects/parts/call.cpp" %]

// Of what experts compute: tensor cores sum products of 16 bits in float32.
kernel::Type narrow_type_of(const at::Tensor& tensor) {
  const kernel::Type type = type_of(tensor);
  TORCH_CHECK(type != kernel::Type::float32, "[[ module ]]: no kernel for ", tensor.scalar_type());
  return type;
}

// `tensor`, dense; it must have a type, the device of another one, and a number of dimensions.
at::Tensor checked(const char* name, const at::Tensor& tensor, at::ScalarType type, const at::Tensor& beside,
                   std::int64_t dims) {
  TORCH_CHECK(tensor.scalar_type() == type && tensor.dim() == dims, "[[ module ]]: ", name, " is ",
              tensor.scalar_type(), " of shape ", tensor.sizes(), ", not ", type, " of ", dims, " dimensions");
  TORCH_CHECK(tensor.device() == beside.device(), "[[ module ]]: ", name, " is on ", tensor.device(), ", not ",
              beside.device());
  return tensor.contiguous();
}

// Fails unless all integers are from 0 to `most`, on a CPU: a GPU would have to end all work for this.
void check_range(const char* name, const at::Tensor& integers, std::int64_t most) {
  if (integers.is_cpu()) {
    const auto* const values = integers.const_data_ptr<std::int32_t>();
    for (std::int64_t i = 0; i < integers.numel(); ++i) {
      TORCH_CHECK(values[i] >= 0 && values[i] <= most, "[[ module ]]: ", name, " has ", values[i], ", not 0 to ", most);
    }
  }
}

// The same for where experts begin, of which none is less than the one before. Rows after the last expert become 0.
void check_offsets(const at::Tensor& offsets, const at::Tensor& out) {
  if (offsets.is_cpu()) {
    check_range("offsets", offsets, out.size(0));
    const auto* const begins = offsets.const_data_ptr<std::int32_t>();
    const std::int64_t experts = offsets.size(0) - 1;
    TORCH_CHECK(begins[0] == 0, "[[ module ]]: offsets begin with ", begins[0], ", not 0");
    for (std::int64_t i = 0; i < experts; ++i) {
      TORCH_CHECK(begins[i] <= begins[i + 1], "[[ module ]]: offsets has ", begins[i + 1], " after ", begins[i]);
    }
    out.slice(0, begins[experts]).zero_();
  }
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> route(const at::Tensor& given, std::int64_t k,
                                                                             bool normalize) {
  const kernel::Type type = type_of(given);
  TORCH_CHECK(given.dim() == 2 && given.size(1) <= kernel::kMostExperts && given.size(1) > 0,
              "[[ module ]]: logits has shape ", given.sizes(), ", not [tokens, 1 to ", kernel::kMostExperts,
              " experts]");
  const std::int64_t tokens = given.size(0);
  const std::int64_t count = given.size(1);
  TORCH_CHECK(k > 0 && k <= count, "[[ module ]]: k is ", k, ", not 1 to ", count);
  TORCH_CHECK(tokens <= std::numeric_limits<std::int32_t>::max() / k, "[[ module ]]: there are ", tokens,
              " tokens of ", k, " experts each");
  const at::Tensor logits = given.contiguous();
  const auto integers = given.options().dtype(at::kInt);
  const at::Tensor weights = at::empty({tokens, k}, given.options().dtype(at::kFloat));
  const at::Tensor experts = at::empty({tokens, k}, integers);
  const at::Tensor offsets = at::empty({count + 1}, integers);
  const at::Tensor sources = at::empty({tokens * k}, integers);
  const at::Tensor places = at::empty({tokens, k}, integers);
  const at::Tensor working = at::empty({kernel::working_size(tokens, count, k)}, integers);
  const kernel::Route tensors = {weights.data_ptr<float>(),
                                 experts.data_ptr<std::int32_t>(),
                                 offsets.data_ptr<std::int32_t>(),
                                 sources.data_ptr<std::int32_t>(),
                                 places.data_ptr<std::int32_t>(),
                                 working.data_ptr<std::int32_t>(),
                                 logits.const_data_ptr(),
                                 tokens,
                                 count,
                                 k,
                                 normalize};
  call(given, [&](void* stream) { return kernel::route(type, tensors, stream); });
  return {weights, experts, offsets, sources, places};
}

at::Tensor grouped_product(const at::Tensor& given_x, const at::Tensor& given_weights, const at::Tensor& given_offsets,
                           const std::optional<at::Tensor>& given_sources) {
  const kernel::Type type = narrow_type_of(given_x);
  TORCH_CHECK(given_x.dim() == 2 && given_weights.dim() == 3 && given_x.size(1) == given_weights.size(1),
              "[[ module ]]: x has shape ", given_x.sizes(), ", weights ", given_weights.sizes());
  TORCH_CHECK(given_weights.scalar_type() == given_x.scalar_type(), "[[ module ]]: x is ", given_x.scalar_type(),
              ", weights ", given_weights.scalar_type());
  TORCH_CHECK(given_weights.device() == given_x.device(), "[[ module ]]: weights is on ", given_weights.device(),
              ", not ", given_x.device());
  const std::int64_t experts = given_weights.size(0);
  const at::Tensor offsets = checked("offsets", given_offsets, at::kInt, given_x, 1);
  TORCH_CHECK(offsets.size(0) == experts + 1 && experts <= kernel::kMostExperts, "[[ module ]]: offsets has ",
              offsets.size(0), " elements, weights ", experts, " experts, of which there are at most ",
              kernel::kMostExperts);
  const at::Tensor sources = given_sources ? checked("sources", *given_sources, at::kInt, given_x, 1) : at::Tensor();
  const std::int64_t rows = given_sources ? sources.size(0) : given_x.size(0);
  TORCH_CHECK(experts > 0 || rows == 0, "[[ module ]]: there are no experts for ", rows, " rows");
  const at::Tensor out = at::empty({rows, given_weights.size(2)}, given_x.options());
  check_offsets(offsets, out);
  if (given_sources) {
    check_range("sources", sources, given_x.size(0) - 1);
  }
  if (out.numel() > 0) {
    const at::Tensor x = given_x.stride(1) == 1 ? given_x : given_x.contiguous();
    const bool by_columns = given_weights.stride(2) != 1 && given_weights.stride(1) == 1;
    const at::Tensor weights =
        by_columns || given_weights.stride(2) == 1 ? given_weights : given_weights.contiguous();
    const kernel::Product tensors = {out.data_ptr(),
                                     x.const_data_ptr(),
                                     weights.const_data_ptr(),
                                     offsets.const_data_ptr<std::int32_t>(),
                                     given_sources ? sources.const_data_ptr<std::int32_t>() : nullptr,
                                     rows,
                                     weights.size(2),
                                     weights.size(1),
                                     experts,
                                     x.stride(0),
                                     weights.stride(0),
                                     weights.stride(by_columns ? 2 : 1),
                                     by_columns};
    call(x, [&](void* stream) {
      const std::int64_t bytes = kernel::scratch_bytes(tensors);
      // Later work of the stream can have it again.
      const at::Tensor scratch = bytes > 0 ? at::empty({bytes}, x.options().dtype(at::kByte)) : at::Tensor();
      return kernel::multiply(type, tensors, bytes > 0 ? scratch.data_ptr() : nullptr, stream);
    });
  }
  return out;
}

at::Tensor combine(const at::Tensor& values, const at::Tensor& given_weights, const at::Tensor& given_places) {
  const kernel::Type type = narrow_type_of(values);
  const at::Tensor rows = checked("values", values, values.scalar_type(), values, 2);
  const at::Tensor weights = checked("weights", given_weights, at::kFloat, values, 2);
  const at::Tensor places = checked("places", given_places, at::kInt, values, 2);
  TORCH_CHECK(weights.sizes() == places.sizes(), "[[ module ]]: weights has shape ", weights.sizes(), ", places ",
              places.sizes());
  check_range("places", places, rows.size(0) - 1);
  const at::Tensor out = at::empty({places.size(0), rows.size(1)}, rows.options());
  if (out.numel() > 0) {
    const kernel::Sum tensors = {out.data_ptr(),  rows.const_data_ptr(), weights.const_data_ptr<float>(),
                                 places.const_data_ptr<std::int32_t>(), places.size(0), places.size(1), rows.size(1)};
    call(values, [&](void* stream) { return kernel::combine(type, tensors, stream); });
  }
  return out;
}

[% include "projects/parts/no_backward.cpp" %]

}  // namespace

[% include "projects/parts/device.cpp" %]

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("route(Tensor logits, int k, bool normalize) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  ops.impl("route", DEVICE, &route);
  ops.def("grouped_product(Tensor x, Tensor weights, Tensor offsets, Tensor? sources) -> Tensor");
  ops.impl("grouped_product", DEVICE, &grouped_product);
  ops.def("combine(Tensor values, Tensor weights, Tensor places) -> Tensor");
  ops.impl("combine", DEVICE, &combine);
  for (const char* name : {"route", "grouped_product", "combine"}) {
    ops.impl(name, c10::DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&no_backward>());
  }
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
