"""Inspection of a compiled kernel: its machine code, its use of the GPU, its errors there."""
