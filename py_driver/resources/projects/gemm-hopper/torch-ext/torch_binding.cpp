[% extends "projects/gemm-wmma/torch-ext/torch_binding.cpp" %]
[% block run %]
    const std::int64_t bytes = kernel::scratch_bytes(type, left.const_data_ptr(), right.const_data_ptr(), sizes);
    // Later work of the stream can have it again.
    const at::Tensor scratch = bytes > 0 ? at::empty({bytes}, a.options().dtype(at::kByte)) : at::Tensor();
    void* const memory = bytes > 0 ? scratch.data_ptr() : nullptr;
    return kernel::run(type, out.data_ptr(), left.const_data_ptr(), right.const_data_ptr(), sizes, memory, stream);
[% endblock %]
