import os
from pathlib import Path

import torch
from kernels import get_local_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNEL = get_local_kernel(
    Path(os.environ.get("KERNEL_BUILD", Path(__file__).parents[1] / "build")),
    backend="cpu" if DEVICE == "cpu" else None,
)


def test_data_is_shipped():
    assert KERNEL.EXTRA == {"answer": 42}
