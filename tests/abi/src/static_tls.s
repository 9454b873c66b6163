# A variable of a thread that has to be in static TLS.
    .text
    movq small@GOTTPOFF(%rip), %rax
    .section .tbss,"awT",@nobits
    .p2align 4
small:
    .zero 144
