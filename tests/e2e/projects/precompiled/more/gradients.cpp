#include <torch/extension.h>

struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    context->save_for_backward({x});
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0]};
  }
};

at::Tensor doubled_twice(at::Tensor x) { return Doubled::apply(Doubled::apply(x)); }
