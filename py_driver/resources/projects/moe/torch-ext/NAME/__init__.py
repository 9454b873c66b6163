"""A mixture of experts: tokens are sorted by their experts, multiplied in one launch, and added up. Forward only."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ._ops import add_op_namespace_prefix, ops


class Routing(NamedTuple):
    """Which experts compute which tokens. Each pair of a token and one of its experts is a row of what they compute.

    Attributes:
        weights: float32 `[tokens, k]`, of the largest logits first.
        experts: int32 `[tokens, k]`.
        offsets: int32 `[experts + 1]`: expert e has the rows from `offsets[e]` to `offsets[e + 1]`, in the order of the
            tokens.
        sources: int32 `[tokens * k]`: the token of each row.
        places: int32 `[tokens, k]`: the row of each pair.
    """

    weights: torch.Tensor
    experts: torch.Tensor
    offsets: torch.Tensor
    sources: torch.Tensor
    places: torch.Tensor


@torch.library.register_fake(add_op_namespace_prefix("route"))
def _fake_route(logits, k, normalize):
    """What torch.compile runs in the place of the kernel: it knows the outputs' shapes alone. So do all of these."""
    tokens, count = logits.shape
    empty = lambda *shape: logits.new_empty(shape, dtype=torch.int32)
    weights = logits.new_empty((tokens, k), dtype=torch.float32)
    return weights, empty(tokens, k), empty(count + 1), empty(tokens * k), empty(tokens, k)


[% include "projects/parts/check_devices.py" %]


@torch.library.register_fake(add_op_namespace_prefix("grouped_product"))
def _fake_grouped_product(x, weights, offsets, sources):
    _check_devices(x, weights, offsets, sources)
    return x.new_empty(((x if sources is None else sources).shape[0], weights.shape[2]))


@torch.library.register_fake(add_op_namespace_prefix("combine"))
def _fake_combine(values, weights, places):
    _check_devices(values, weights, places)
    return values.new_empty((places.shape[0], values.shape[1]))


def route(logits: torch.Tensor, k: int, normalize: bool = True) -> Routing:
    """The `k` experts with the largest logits for each token, and the order in which experts compute them.

    Args:
        logits: float32, float16 or bfloat16 `[tokens, experts]`, of at most 1024 experts.
        k: how many experts a token has. Of equal logits the first one counts, and NaN is larger than all numbers.
        normalize: whether the weights of a token add up to 1; else they are the softmax of all logits.

    Returns:
        The routing. Nothing waits for the GPU. There is no backward: logits that require grad are an error, but under
        torch.no_grad().
    """
    return Routing(*ops.route(logits, k, normalize))


def grouped_product(
    x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, sources: torch.Tensor | None = None
) -> torch.Tensor:
    """`x[rows of e] @ weights[e]` for each expert e, in one launch.

    Args:
        x: float16 or bfloat16 `[rows, depth]`.
        weights: `[experts, depth, columns]` of that type. The transpose of a tensor that is `[experts, columns, depth]`
            in memory, as torch.nn.Linear has weights, is not copied.
        offsets: int32 `[experts + 1]`, as `route` returns them: from 0 to the number of rows, none less than the one
            before. They are checked on a CPU alone, since that would wait for the GPU.
        sources: int32, the row of `x` for each row of the output; by default the same one. Checked likewise.

    Returns:
        A row for each source. Rows after the last expert's are 0 on a CPU; a GPU does not write them, as with torch's
        `grouped_mm`. Sums are float32. There is no backward: an input that requires grad is an error, but
        under torch.no_grad().
    """
    return ops.grouped_product(x, weights, offsets, sources)


def combine(values: torch.Tensor, weights: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The weighted sum of rows for each token, always in the order of its experts.

    Args:
        values: float16 or bfloat16 `[rows, columns]`.
        weights: float32 `[tokens, k]`, as `route` returns them.
        places: int32 `[tokens, k]`, likewise: rows of `values`. Checked on a CPU alone.

    Returns:
        `[tokens, columns]`, of sums in float32. There is no backward: an input that requires grad is an error, but
        under torch.no_grad().
    """
    return ops.combine(values, weights, places)


def [[ module ]](
    x: torch.Tensor, logits: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, k: int, normalize: bool = True
) -> torch.Tensor:
    """A layer of experts, each of which computes `(silu(x @ gate) * (x @ up)) @ down`.

    Args:
        x: float16 or bfloat16 `[tokens, hidden]`.
        logits: `[tokens, experts]`, as `route` takes them.
        gate_up: `[experts, hidden, 2 * inner]` of the type of `x`, the gate's columns first.
        down: `[experts, inner, hidden]`, likewise.
        k: how many experts a token has.
        normalize: whether the weights of a token add up to 1.

    Returns:
        A tensor like `x`. There is no backward: an input that requires grad is an error, but under torch.no_grad().
    """
    routing = route(logits, k, normalize)
    gate, up = grouped_product(x, gate_up, routing.offsets, routing.sources).chunk(2, -1)
    values = grouped_product(torch.nn.functional.silu(gate) * up, down, routing.offsets)
    return combine(values, routing.weights, routing.places)


__all__ = ["combine", "grouped_product", "[[ module ]]", "route"]
