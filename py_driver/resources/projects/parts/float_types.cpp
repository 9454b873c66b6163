kernel::Type type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return kernel::Type::float32;
    case at::kHalf:
      return kernel::Type::float16;
    case at::kBFloat16:
      return kernel::Type::bfloat16;
    default:
      TORCH_CHECK(false, "[[ module ]]: no kernel for ", tensor.scalar_type());
  }
}
