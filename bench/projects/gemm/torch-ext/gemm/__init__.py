"""A product of float16 matrices with CUTLASS: heavy templates for the benchmark."""

from ._ops import ops

gemm = ops.gemm

__all__ = ["gemm"]
