import os
from pathlib import Path

import torch
from kernels import get_local_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNEL = get_local_kernel(
    Path(os.environ.get("KERNEL_BUILD", Path(__file__).parents[1] / "build")),
    backend="cpu" if DEVICE == "cpu" else None,
)


def test_gradients_equal_torch():
    x = torch.randn(127, 61, device=DEVICE, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    weights = torch.randn_like(x)
    (KERNEL.relu(x) * weights).sum().backward()
    (torch.relu(y) * weights).sum().backward()
    assert torch.equal(x.grad, y.grad)


def test_compiles_as_one_graph():
    x = torch.randn(64, 33, device=DEVICE)
    compiled = torch.compile(lambda x: KERNEL.relu(x) + 1, fullgraph=True)
    assert torch.equal(compiled(x), torch.relu(x) + 1)
