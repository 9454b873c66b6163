[% extends "projects/gemm-wmma/csrc/NAME.h" %]
[% block scratch %]
// The bytes of device memory that `run` needs as `scratch` for these matrices: for copies of what the Tensor Memory
// Accelerator cannot read, and for the sums of parts of the depth.
std::int64_t scratch_bytes(Type type, const void* a, const void* b, const Sizes& sizes);

[% endblock %]
[% block argument %], void* scratch[% endblock %]
