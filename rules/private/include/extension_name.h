// What a binding is preprocessed with in place of the id of its kernel, which is put into the text afterwards: see
// compile_cxx in rules/private/compile.bzl.
#define TORCH_EXTENSION_NAME torch_kernels_extension_name
#define TORCH_EXTENSION_NAME_IS_LINKED
