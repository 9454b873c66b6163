# An address inside of code.
    .text
    .quad PyModule_Create2
