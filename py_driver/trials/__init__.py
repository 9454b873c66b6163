"""Many candidates of a kernel: read, built together, and judged by their results."""
