[% if cpu %]
// On a CPU the product is torch's: it calls libraries that know the CPU's own instructions. Its sums are never narrow.
#include "[[ module ]].h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>

namespace [[ module ]]_impl {
namespace {

at::Tensor matrix(const void* first, std::int64_t rows, std::int64_t columns, bool by_columns, at::ScalarType type) {
  const std::int64_t next_row = by_columns ? 1 : columns;
  const std::int64_t next_column = by_columns ? rows : 1;
  return at::from_blob(const_cast<void*>(first), {rows, columns}, {next_row, next_column}, at::TensorOptions(type));
}

// Sums of int8 products by way of float32, which has all sums of so many products. torch's _int_mm is faster, but wrong
// on CPUs without VNNI: oneDNN bounds the sums of two products to 16 bits there.
void multiply_integers(at::Tensor& out, const at::Tensor& left, const at::Tensor& right) {
  constexpr std::int64_t kExact = 1024;  // times 128 * 128 is 2^24
  out.zero_();
  at::Tensor sums = at::empty(out.sizes(), at::kFloat);
  for (std::int64_t first = 0; first < left.size(1); first += kExact) {
    const std::int64_t some = std::min(kExact, left.size(1) - first);
    at::mm_out(sums, left.narrow(1, first, some).to(at::kFloat), right.narrow(0, first, some).to(at::kFloat));
    out.add_(sums.to(at::kInt));
  }
}

}  // namespace

std::int64_t scratch_bytes(Type, const void*, const void*, const void*, const Sizes&) { return 0; }

int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes, void*, void*) {
  const bool integers = type == Type::int8;
  const at::ScalarType of = integers ? at::kChar : type == Type::bfloat16 ? at::kBFloat16 : at::kHalf;
  at::Tensor to = matrix(out, sizes.rows, sizes.columns, false, integers ? at::kInt : of);
  const at::Tensor left = matrix(a, sizes.rows, sizes.depth, false, of);
  const at::Tensor right = matrix(b, sizes.depth, sizes.columns, sizes.by_columns, of);
  if (integers) {
    multiply_integers(to, left, right);
  } else {
    at::mm_out(to, left, right);
  }
  return 0;
}

}  // namespace [[ module ]]_impl
[% endif %]
