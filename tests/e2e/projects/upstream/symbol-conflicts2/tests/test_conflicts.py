import os
from pathlib import Path

import torch
from kernels import get_local_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNEL = get_local_kernel(
    Path(os.environ.get("KERNEL_BUILD", Path(__file__).parents[1] / "build")),
    backend="cpu" if DEVICE == "cpu" else None,
)

OTHER = get_local_kernel(Path(__file__).parents[2] / "symbol-conflicts" / "build", backend="cpu")


def test_each_has_its_own_counter():
    assert [KERNEL.count(), OTHER.count(), KERNEL.count(), OTHER.count()] == [101, 1, 102, 2]
