# What every library here has: a function that Python would call, which calls one of Python's.
    .text
    .globl PyInit_good
    .type PyInit_good,@function
PyInit_good:
    jmp PyModule_Create2@PLT
    .size PyInit_good,.-PyInit_good
    .section .note.GNU-stack,"",@progbits
