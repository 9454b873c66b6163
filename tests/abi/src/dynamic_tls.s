# 64 KiB of variables of a thread that may be anywhere.
    .text
    data16 leaq big@TLSGD(%rip), %rdi
    .value 0x6666
    rex64 call __tls_get_addr@PLT
    .section .tbss,"awT",@nobits
big:
    .zero 65536
