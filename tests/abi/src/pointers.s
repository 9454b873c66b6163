# Addresses that the loader has to move.
    .data
    .p2align 3
place:
    .quad place
    .quad place
