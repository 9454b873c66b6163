import os
from pathlib import Path

import torch
from kernels import get_local_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNEL = get_local_kernel(
    Path(os.environ.get("KERNEL_BUILD", Path(__file__).parents[1] / "build")),
    backend="cpu" if DEVICE == "cpu" else None,
)


def test_shortest_text():
    assert [KERNEL.shortest(x) for x in (0.1, 1e300, -2.5)] == ["0.1", "1e+300", "-2.5"]
