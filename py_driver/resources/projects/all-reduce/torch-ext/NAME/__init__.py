"""The sum of a tensor over the GPUs of a machine, each with a process, through memory that all of them address."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops

_SIGNALS = 4 * (64 * 8 + 64 + 2)
"""Bytes of `kSignals` in csrc/[[ module ]].h."""

_ONE_SHOT = 1 << 18
"""Up to so many bytes each rank adds up all; above, its share alone, which reads less but waits twice."""


@torch.library.register_fake(add_op_namespace_prefix("[[ module ]]"))
def _fake(out: torch.Tensor, input: torch.Tensor, memory, capacity, rank, two_shot) -> None:
    """What torch.compile runs in the place of the kernel: it only knows that `out` is written."""


class Group:
    """Memory that the ranks of a process group share, for `[[ module ]]`; every rank makes it at the same time.

    Args:
        group: of torch.distributed, with 1 to 8 ranks on GPUs of one machine that reach each other's memory; all ranks
            by default.
        capacity: bytes that a call moves at once, a multiple of 16; a larger tensor takes several.

    Attributes:
        addresses: of the memory of each rank, as this rank's GPU addresses it.
        capacity: as given.
        rank: the number of this rank.

    Raises:
        ValueError: too many ranks, or a wrong capacity.
        RuntimeError: the GPUs do not reach each other.
    """

    def __init__(self, group: torch.distributed.ProcessGroup | None = None, capacity: int = 1 << 24) -> None:
        import torch.distributed as dist
        import torch.distributed._symmetric_memory as symmetric

        group = group or dist.group.WORLD
        if not 1 <= group.size() <= 8:
            raise ValueError(f"{group.size()} ranks, not 1 to 8")
        if capacity <= 0 or capacity % 16:
            raise ValueError(f"buffers of {capacity} bytes, no multiple of 16")
        device = torch.device("cuda", torch.cuda.current_device())
        self._memory = symmetric.empty(2 * capacity + _SIGNALS, dtype=torch.uint8, device=device)
        self._memory[2 * capacity :].zero_()
        self._handle = symmetric.rendezvous(self._memory, group.group_name)
        self.addresses = [int(address) for address in self._handle.buffer_ptrs]
        self.capacity, self.rank = capacity, group.rank()
        torch.cuda.synchronize()
        dist.barrier(group)  # all signals are zero before anybody writes one

    def __call__(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """See `[[ module ]]`."""
        return [[ module ]](x, self, out)


def [[ module ]](
    x: torch.Tensor, group: Group, out: torch.Tensor | None = None, *, two_shot: bool | None = None
) -> torch.Tensor:
    """The sum of a tensor over all ranks, which call it in the same order, on one stream each.

    Args:
        x: float32, float16 or bfloat16 tensor of the same shape and type on every rank.
        group: what the ranks share.
        out: contiguous tensor like `x` to write to, which may be `x`; a new one by default.
        two_shot: how it is added up: see csrc/[[ module ]].h; by size by default.

    Returns:
        `out`, with the same bits on every rank: added in float32 and in the order of the ranks. There is no backward:
        an input that requires grad is an error, but under torch.no_grad().
    """
    if out is None:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
    # A view may begin anywhere; new memory of torch is aligned.
    source = x.contiguous() if x.data_ptr() % 16 == 0 else x.clone(memory_format=torch.contiguous_format)
    target = out if out.data_ptr() % 16 == 0 else torch.empty_like(out)
    if two_shot is None:
        two_shot = x.nbytes > _ONE_SHOT
    step = group.capacity // x.element_size()
    flat, written = source.view(-1), target.view(-1)
    for start in range(0, max(x.numel(), 1), step):
        part = slice(start, start + step)
        ops.[[ module ]](written[part], flat[part], group.addresses, group.capacity, group.rank, two_shot)
    if target is not out:
        out.copy_(target)
    return out


__all__ = ["Group", "[[ module ]]"]
