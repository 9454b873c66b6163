#include <torch/extension.h>

#include <map>
#include <vector>

namespace {

struct Counted {
  static inline int64_t count = 0;
  Counted() { ++count; }
  virtual ~Counted() = default;
  virtual double value() const { return 1.0; }
};

struct Scaled final : Counted {
  explicit Scaled(double by) : by_(by) {}
  double value() const override { return by_; }
  double by_;
};

const std::map<std::string, double> factors = {{"one", 1.0}, {"two", 2.0}};
thread_local int64_t calls = 0;

}  // namespace

namespace mine {

template <typename T>
void scale(T* data, int64_t size, double by) {
  at::parallel_for(0, size, 1024, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) data[i] = static_cast<T>(data[i] * by);
  });
}

}  // namespace mine

at::Tensor all_types(std::vector<at::Tensor> tensors, double scale) {
  ++calls;
  TORCH_CHECK(!tensors.empty(), "no tensors among ", tensors.size(), " in line ", __LINE__);
  std::unique_ptr<Counted> by = std::make_unique<Scaled>(scale * factors.at("two"));
  at::Tensor out = torch::zeros_like(tensors.front());
  for (const at::Tensor& tensor : tensors) out = out + tensor.contiguous();
  AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "all_types", [&] {
    mine::scale<scalar_t>(out.data_ptr<scalar_t>(), out.numel(), by->value());
  });
  try {
    return out.view({-1, 2});
  } catch (const c10::Error& problem) {
    return out.reshape({-1});
  }
}
