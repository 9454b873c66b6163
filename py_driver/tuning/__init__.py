"""The fastest configuration of a kernel for each problem: measured, recorded, and written into a header."""
