"""silu(x) * y in plain Python: a kernel without a compiled part."""

import json
from pathlib import Path

import torch

from ._ops import add_op_namespace_prefix, get_backend

BACKEND = get_backend()
LIMITS = json.loads((Path(__file__).parent / "limits.json").read_text())


@torch.library.custom_op(add_op_namespace_prefix("silu_and_mul"), mutates_args=())
def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """silu of the first half of the last dimension, times the second half."""
    if x.dim() > LIMITS["dimensions"]:
        raise ValueError("too many dimensions")
    gate, value = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * value
