"""What became of a kernel: its machine code, what it uses of the GPU, what it does wrong there."""
