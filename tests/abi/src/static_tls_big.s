# 64 KiB of variables of a thread that have to be in static TLS.
    .text
    movq big@GOTTPOFF(%rip), %rax
    .section .tbss,"awT",@nobits
big:
    .zero 65536
