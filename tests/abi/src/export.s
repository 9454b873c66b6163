# A function that others can see.
    .globl helper
    .type helper,@function
helper:
    ret
