"""Compares a kernel with a reference in float64, and looks for faults that a comparison alone does not show.

`verify` runs an op two times, on a GPU three times, and asserts that

- each element is within a bound that follows from the types, not from taste: half a unit in the last place of the
  output, and what the accumulator may lose; integers are exact;
- all of the output is written: before each run it is filled with NaN, or with a pattern if it has integers;
- nothing is written before or after the output, nor to an input;
- two runs give the same bits;
- a run on another stream waits for what that stream did before.

Gradients are in gradients.py.

`driver init` wrote this file. It is yours to change, and needs torch and pytest alone.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import NamedTuple

import pytest
import torch


class _Devices(NamedTuple):
    """What the tests run on.

    device: torch's name of it.
    backend: what to give `kernels.get_kernel`: a torch that was built for GPUs does not look for a variant for the CPU.
    """

    device: str
    backend: str | None


DEVICES = _Devices("cuda", None) if torch.cuda.is_available() else _Devices("cpu", "cpu")

LAYOUTS = ("contiguous", "transposed", "strided", "offset")
"""How tensors can lie in memory: see `laid_out`."""

_GUARD = 512
"""Bytes before and after an output; a multiple of every alignment that kernels ask for."""

_GUARD_BYTE, _NAN_BYTE, _PATTERN = 0xA5, 0xFF, 0x5A


def make(shape, dtype, *, low=None, high=None, seed=0):
    """A tensor of random values, the same ones for the same arguments.

    Args:
        shape: its sizes.
        dtype: any type of torch but those of 4 bits; for these see `pack_int4`.
        low: the smallest value; that of `torch.testing.make_tensor` if None.
        high: the largest value, likewise.
        seed: for other values of the same kind.
    """
    torch.manual_seed(seed)
    return torch.testing.make_tensor(shape, dtype=dtype, device=DEVICES.device, low=low, high=high)


def laid_out(tensor, layout):
    """A tensor with the same values that lies otherwise in memory.

    Args:
        tensor: the values.
        layout: `contiguous`; `transposed`: the last two dimensions are exchanged in memory; `strided`: there is a gap
            after each element; `offset`: it starts one element after an address that is aligned.
    """
    if layout == "transposed":
        return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor
    if layout == "strided":
        wide = torch.zeros((*tensor.shape, 2), dtype=tensor.dtype, device=tensor.device)
        wide[..., 0] = tensor
        return wide[..., 0]
    if layout == "offset":
        longer = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
        longer[1:] = tensor.reshape(-1)
        return longer[1:].view(tensor.shape)
    if layout != "contiguous":
        raise ValueError(f"layout is {layout!r}, none of {LAYOUTS}")
    return tensor.contiguous()


def pack_int4(values):
    """Integers from -8 to 7 as bytes: two's complement, of each pair the first one in the low half."""
    if values.shape[-1] % 2 or values.min() < -8 or values.max() > 7:
        raise ValueError("the last dimension must be even, and the values from -8 to 7")
    halves = values.to(torch.uint8) & 0xF
    return halves[..., 0::2] | halves[..., 1::2] << 4


def unpack_int4(packed):
    """What `pack_int4` packed, as int8."""
    halves = torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2).to(torch.int8)
    return torch.where(halves > 7, halves - 16, halves)


def large(*, elements, bytes_each):
    """A mark for a test that needs much memory: skipped where there is too little.

    On a CPU it runs only if VERIFY_LARGE=1, since it takes minutes there.

    Args:
        elements: of the largest tensor.
        bytes_each: what the test needs for each of them, all tensors together.
    """
    if DEVICES.device == "cpu":
        return pytest.mark.skipif(os.environ.get("VERIFY_LARGE") != "1", reason="takes minutes: VERIFY_LARGE=1 runs it")
    free = torch.cuda.mem_get_info()[0]
    return pytest.mark.skipif(free < elements * bytes_each * 1.2, reason=f"{free >> 30} GiB of GPU memory are too few")


def verify(
    op,
    reference,
    inputs,
    *,
    out=None,
    ulps=1.0,
    accumulate=None,
    terms=0,
    magnitude=None,
    writes=(),
    repeatable=True,
):
    """Assert that an op is right, and has no other effect.

    Args:
        op: what to test; takes the inputs, and before them the tensor to write to if `out` is given.
        reference: computes the same from float64 tensors (int64 for integers), e.g. `torch.mm`.
        inputs: tensors and other arguments.
        out: a tensor with the shape and type of the output, if the op takes the tensor to write to; else the op returns
            the output.
        ulps: what may be lost in the accumulator's type besides rounding the result: units in the last place.
        accumulate: that type; float32, or float64 for an output of float64, if None.
        terms: how many products or values are added up for an element: K of a matrix product.
        magnitude: with `terms`, computes what they add up to if all are positive, from the same tensors as the
            reference; if None, it is what the reference gives for absolute values, which is right for sums of products.
        writes: the positions of inputs that the op may change.
        repeatable: whether two runs must give the same bits; not where atomics add floats.

    Raises:
        AssertionError: it says what is wrong, where, and by how much.
    """
    wide = [_widened(one) for one in inputs]
    expected = reference(*wide)
    sizes = None
    if terms:
        signless = [one.abs() if isinstance(one, torch.Tensor) else one for one in wide]
        sizes = magnitude(*wide) if magnitude else reference(*signless)
    runs = [_run(op, inputs, out, expected, writes) for _ in range(2)]
    if DEVICES.device == "cuda" and any(isinstance(one, torch.Tensor) and one.is_cuda for one in inputs):
        runs.append(_run_on_another_stream(op, inputs, out, expected, writes))
    for actual in runs:
        _compare(actual, expected, sizes, ulps=ulps, accumulate=accumulate, terms=terms)
    if repeatable:
        for actual in runs[1:]:
            assert torch.equal(_bytes(actual), _bytes(runs[0])), "two runs give different bits"


def _widened(value):
    """A tensor in the type in which the reference computes."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype.is_floating_point:
        return value.to(torch.float64)
    return value if value.dtype == torch.bool else value.to(torch.int64)


def _run(op, inputs, out, expected, writes):
    """One run; a copy of its output."""
    tensors = [(i, one) for i, one in enumerate(inputs) if isinstance(one, torch.Tensor)]
    given = [_twin(one) if i in writes else one for i, one in enumerate(inputs)]
    before = {i: _storage(one).clone() for i, one in tensors if i not in writes}
    if out is None:
        with _poisoned():
            actual = op(*given)
        assert isinstance(actual, torch.Tensor), f"the op returns {type(actual).__name__}, not a tensor"
    else:
        buffer, actual = _guarded(expected.shape, out.dtype, out.device)
        op(actual, *given)
        size = buffer.numel() - 2 * _GUARD
        assert (buffer[:_GUARD] == _GUARD_BYTE).all(), "the op writes before the begin of the output"
        assert (buffer[_GUARD + size :] == _GUARD_BYTE).all(), "the op writes after the end of the output"
    for i, one in tensors:
        assert i in writes or torch.equal(_storage(one), before[i]), f"the op changes its input {i}"
    return actual.detach().clone(memory_format=torch.contiguous_format)


def _run_on_another_stream(op, inputs, out, expected, writes):
    """One run on a stream that brings the inputs late: a kernel on any other stream reads what was there before."""
    late = [_twin(one, empty=True) if isinstance(one, torch.Tensor) and one.is_cuda else one for one in inputs]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        for one, source in zip(late, inputs):
            if one is not source:
                _storage(one).copy_(_storage(source))
        if out is None:
            actual = op(*late)
        else:
            _, actual = _guarded(expected.shape, out.dtype, out.device)
            op(actual, *late)
        copy = actual.detach().clone(memory_format=torch.contiguous_format)
    stream.synchronize()
    return copy


def _storage(tensor):
    """All bytes of the memory in which a tensor lies."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _twin(tensor, *, empty=False):
    """A tensor that lies in memory of its own as another one does."""
    storage = torch.zeros_like(_storage(tensor)) if empty else _storage(tensor).clone()
    twin = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return twin.set_(storage.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())


def _bytes(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8)


def _guarded(shape, dtype, device):
    """A tensor full of poison between guards, and the bytes of all three."""
    size = torch.Size(shape).numel() * torch.empty(0, dtype=dtype).element_size()
    buffer = torch.full((size + 2 * _GUARD,), _GUARD_BYTE, dtype=torch.uint8, device=device)
    inner = buffer[_GUARD : _GUARD + size]
    inner.fill_(_NAN_BYTE if dtype.is_floating_point else _PATTERN)
    return buffer, inner.view(dtype).view(shape)


@contextlib.contextmanager
def _poisoned():
    """Memory that ops of torch allocate, also from C++, is full of NaN, or of the largest integer."""
    enabled, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    filled = torch.utils.deterministic.fill_uninitialized_memory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = True
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
            torch.utils.deterministic.fill_uninitialized_memory = filled


def _ulp(values, dtype):
    """The unit in the last place of each value, in a type."""
    facts = torch.finfo(dtype)
    smallest = facts.smallest_normal * facts.eps
    exponent = torch.frexp(values.abs().clamp(min=smallest, max=facts.max)).exponent - 1
    return torch.ldexp(torch.full_like(values, facts.eps), exponent).clamp(min=smallest)


def _compare(actual, expected, magnitude, *, ulps, accumulate, terms):
    """Assert that an output is what was expected, within its bound."""
    assert actual.shape == expected.shape, f"the output has shape {tuple(actual.shape)}, not {tuple(expected.shape)}"
    if not actual.dtype.is_floating_point:
        wrong = actual.to(expected.dtype) != expected
        _fail(wrong, actual, expected, torch.zeros_like(expected, dtype=torch.float64))
        return
    expected = expected.to(torch.float64)
    accumulate = accumulate or (torch.float64 if actual.dtype == torch.float64 else torch.float32)
    finite = expected.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    bound = 0.5 * _ulp(finite, actual.dtype) + ulps * _ulp(finite, accumulate)
    if terms:
        # Each addition loses at most one unit: tensor cores cut off, they do not round.
        bound = bound + (terms + 2) * torch.finfo(accumulate).eps * magnitude.abs()
    got = actual.to(torch.float64)
    near = (got - expected).abs() <= bound
    same = (got == expected.to(actual.dtype).to(torch.float64)) | (got.isnan() & expected.isnan())
    _fail(~(near | same), actual, expected, bound)


def _fail(wrong, actual, expected, bound):
    """Say which elements are wrong, if any."""
    count = int(wrong.sum())
    if not count:
        return
    distance = (actual.to(torch.float64) - expected.to(torch.float64)).abs().nan_to_num(nan=float("inf"))
    worst = int(torch.where(wrong, distance, -1.0).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), expected.shape))
    raise AssertionError(
        f"{count} of {expected.numel()} elements are wrong; the worst is {list(index)}: "
        f"{actual[index].item()!r}, expected {expected[index].item()!r} within {bound[index].item():.3g}"
    )
