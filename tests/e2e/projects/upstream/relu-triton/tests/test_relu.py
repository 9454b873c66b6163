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
    for size in (1, 1000, 4097):
        x = torch.randn(size, device=DEVICE)
        assert torch.equal(KERNEL.relu(x), torch.relu(x))
