[% if cpu %]
// On a CPU the product is torch's: it calls libraries that know the CPU's own instructions for these types. Its sums
// are never narrow.
#include "[[ module ]].h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

namespace [[ module ]]_impl {
namespace {

at::Tensor matrix(const void* first, std::int64_t rows, std::int64_t columns, bool by_columns, at::ScalarType type) {
  const std::int64_t next_row = by_columns ? 1 : columns;
  const std::int64_t next_column = by_columns ? rows : 1;
  return at::from_blob(const_cast<void*>(first), {rows, columns}, {next_row, next_column}, at::TensorOptions(type));
}

}  // namespace

std::int64_t scratch_bytes(Type, const void*, const void*, const void*, const Sizes&) { return 0; }

int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void*, void*) {
  const bool integers = type == Type::int8;
  const at::ScalarType of = integers ? at::kChar : type == Type::bfloat16 ? at::kBFloat16 : at::kHalf;
  at::Tensor to = matrix(out, sizes.rows, sizes.columns, false, integers ? at::kInt : of);
  const at::Tensor left = matrix(a, sizes.rows, sizes.depth, false, of);
  const at::Tensor right = matrix(b, sizes.depth, sizes.columns, sizes.by_columns, of);
  integers ? at::_int_mm_out(to, left, right) : at::mm_out(to, left, right);
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
