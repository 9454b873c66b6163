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
    for m, k, n in ((64, 64, 64), (33, 100, 65), (128, 4096, 4096)):
        a = torch.randn(m, k, device=DEVICE, dtype=torch.float16)
        b = torch.randn(k, n, device=DEVICE, dtype=torch.float16)
        torch.testing.assert_close(KERNEL.gemm(a, b).float(), a.float() @ b.float(), rtol=2e-3, atol=2e-1)


def test_tuned_sizes_are_shipped():
    assert KERNEL.tuned(14336, 4096, "NVIDIA H200")["BLOCK_N"] == 128
    assert KERNEL.tuned(1, 1, "another")["BLOCK_N"] == 32
