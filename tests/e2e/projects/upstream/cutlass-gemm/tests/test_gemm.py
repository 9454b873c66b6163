import os
from pathlib import Path

import torch
from kernels import get_local_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNEL = get_local_kernel(
    Path(os.environ.get("KERNEL_BUILD", Path(__file__).parents[1] / "build")),
    backend="cpu" if DEVICE == "cpu" else None,
)


def test_equals_torch():
    for m, k, n in ((128, 128, 128), (1, 7, 1), (257, 129, 65), (64, 1024, 96)):
        a, b = torch.randn(m, k, device=DEVICE), torch.randn(k, n, device=DEVICE)
        torch.testing.assert_close(KERNEL.cutlass_gemm(a, b).double(), a.double() @ b.double(), rtol=1e-4, atol=1e-4)
