// Stands before an op that has no backward. Without it torch would let training go on, and leave gradients out.
void no_backward(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const bool records = c10::GradMode::is_enabled();
  const auto refuse = [&](const at::Tensor& tensor) {
    const std::string& name = op.operator_name().name;
    TORCH_CHECK(!(records && tensor.requires_grad()) && !tensor._fw_grad(0).defined(), name.substr(name.rfind(':') + 1),
                ": the op has no backward, but a tensor requires grad: call it under torch.no_grad(), pass "
                "tensor.detach(), or register a backward for it");
  };
  for (const c10::IValue& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (value.isTensor()) {
      refuse(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        refuse(tensor);
      }
    }
  }
  // Tensors that the op writes get a new version, so that a backward that needs the old values raises an error.
  std::vector<at::Tensor> written;
  const auto values = torch::jit::last(*stack, op.schema().arguments().size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const c10::AliasInfo* const alias = op.schema().arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite() && values[i].isTensor() && !values[i].toTensor().is_inference()) {
      written.push_back(values[i].toTensor());
    }
  }
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  for (const at::Tensor& tensor : written) {
    tensor.unsafeGetTensorImpl()->bump_version();
  }
}
