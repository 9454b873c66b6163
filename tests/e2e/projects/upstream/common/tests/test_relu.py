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
    for shape in ((0,), (1,), (127, 61), (1_000_003,)):
        x = torch.randn(shape, device=DEVICE)
        assert torch.equal(KERNEL.relu(x), torch.relu(x)), shape


def test_other_dtypes_are_refused():
    try:
        KERNEL.relu(torch.zeros(3, dtype=torch.float64, device=DEVICE))
    except RuntimeError as problem:
        assert "float32 only" in str(problem)
    else:
        raise AssertionError
