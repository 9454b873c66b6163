#include <torch/extension.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
namespace {
template <typename T> struct Kernel { T scale; T operator()(T x) const { return x * scale; } };
thread_local int calls = 0;
at::Tensor run(const at::Tensor& x) {
  auto out = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "run", [&] {
    auto* in = x.const_data_ptr<scalar_t>(); auto* to = out.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, x.numel(), 1024, [&](int64_t begin, int64_t end) { Kernel<scalar_t> k{scalar_t(2)}; for (auto i = begin; i < end; i++) to[i] = k(in[i]); });
  });
  calls++;
  return out;
}
}
at::Tensor lambdas(at::Tensor x) { static auto f = [](const at::Tensor& y) { return run(y); }; return f(x.contiguous()); }
