# The function of a binding without Python.
    .globl rules_torch_kernels_binding_good
    .type rules_torch_kernels_binding_good,@function
rules_torch_kernels_binding_good:
    ret
