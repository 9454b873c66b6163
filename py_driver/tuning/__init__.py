"""Which configuration of a kernel is the fastest for which problem: measured, recorded, and put into a header."""
