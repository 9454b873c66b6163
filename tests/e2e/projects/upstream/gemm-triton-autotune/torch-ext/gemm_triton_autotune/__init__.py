from .gemm import gemm
from .tuning import tuned

__all__ = ["gemm", "tuned"]
