# A module of another name than that of the file.
    .globl PyInit_other
    .type PyInit_other,@function
PyInit_other:
    ret
