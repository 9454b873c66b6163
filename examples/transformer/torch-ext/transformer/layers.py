"""What `kernels.kernelize` puts in the place of a model's layers: each has a `forward` alone, and no state of its own.

`self` is the layer that is replaced, with its weights. Names of weights are those of the `transformers` classes.
"""

from __future__ import annotations

import torch

from ._ops import ops


class RMSNorm(torch.nn.Module):
    """For layers with `weight` and `variance_epsilon`, such as LlamaRMSNorm."""

    can_torch_compile = True
    has_backward = True

    weight: torch.Tensor
    variance_epsilon: float

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """The norm along the last dimension."""
        return ops.rms_norm(hidden_states, self.weight, self.variance_epsilon)[0]


class RotaryEmbedding(torch.nn.Module):
    """For the function `apply_rotary_pos_emb`."""

    can_torch_compile = True
    has_backward = True

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Queries and keys, turned; see `transformer.rope`."""
        if unsqueeze_dim != 1:
            q, k = ops.rope(q.transpose(1, 2), k.transpose(1, 2), cos, sin, inverse=False)
            return q.transpose(1, 2), k.transpose(1, 2)
        return ops.rope(q, k, cos, sin, inverse=False)


class SwigluMLP(torch.nn.Module):
    """For layers with `gate_proj`, `up_proj` and `down_proj` whose activation is SiLU, such as LlamaMLP."""

    can_torch_compile = True
    has_backward = True

    gate_proj: torch.nn.Module
    up_proj: torch.nn.Module
    down_proj: torch.nn.Module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two products, the fused activation, and the third product."""
        return self.down_proj(ops.swiglu(self.gate_proj(x), self.up_proj(x)))
