"""Faulty kernels for each element type: which does a new project's `verify.py` catch? Needs torch and pytest.

It prints JSON: for each type the faults and the correct kernels, each with the message of `verify`. verify.py must be
on Python's path, with gradients.py beside it.
"""

from __future__ import annotations

import itertools
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from gradients import verify_gradient  # type: ignore[import-not-found]
from torch import Tensor
from verify import LAYOUTS, laid_out, make, pack_int4, unpack_int4, verify  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]
SMALL = [dtype for dtype in FLOATS if dtype.itemsize < 4]
INTEGERS = [torch.int8, torch.int32]
ROWS, COLUMNS, DEPTH = 23, 17, 511


def wide(x: Tensor) -> Tensor:
    return x.to(torch.float64 if x.dtype == torch.float64 else torch.float32) if x.is_floating_point() else x.long()


def function(x: Tensor) -> Tensor:
    """The function of the correct elementwise kernel."""
    return x * torch.sigmoid(x) if x.is_floating_point() else 3 * x - 1


def cut(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A value rounded towards 0, as by a kernel that truncates bits."""
    rounded = x.to(dtype)
    too_far = rounded.to(x.dtype).abs() > x.abs()
    bits = rounded.view(torch.uint8 if dtype.itemsize == 1 else torch.int16)
    return torch.where(too_far, bits - 1, bits).view(dtype)


def elementwise() -> dict[str, Callable[[Tensor, Tensor], None]]:  # noqa: C901  (a list of faults)
    """Faults of a kernel that writes function(x) to out."""
    turn = itertools.count()

    def right(out: Tensor, x: Tensor) -> None:
        out.copy_(function(wide(x)).to(out.dtype))

    def dropped_tail(out: Tensor, x: Tensor) -> None:
        whole = out.numel() // 4 * 4
        out.view(-1)[:whole] = function(wide(x)).reshape(-1)[:whole].to(out.dtype)

    def wrong_rounding(out: Tensor, x: Tensor) -> None:
        out.copy_(cut(function(wide(x)), out.dtype))

    def less_precision(out: Tensor, x: Tensor) -> None:
        out.copy_(function(x.to(torch.float16)).to(out.dtype))

    def race_on_the_last_row(out: Tensor, x: Tensor) -> None:
        right(out, x)
        last = out.view(torch.uint8)[-1]
        last += next(turn) % 2  # one unit in the last place, now and then

    def not_written(_out: Tensor, _x: Tensor) -> None:
        pass

    def input_overwritten(out: Tensor, x: Tensor) -> None:
        right(out, x)
        x.view(torch.uint8).fill_(1)

    def past_the_end(out: Tensor, x: Tensor) -> None:
        right(out, x)
        out.as_strided((1,), (1,), out.storage_offset() + out.numel()).view(torch.uint8).fill_(0)

    def before_the_begin(out: Tensor, x: Tensor) -> None:
        right(out, x)
        out.as_strided((1,), (1,), out.storage_offset() - 1).view(torch.uint8).fill_(0)

    def ignores_strides(out: Tensor, x: Tensor) -> None:
        right(out, x.as_strided(x.shape, torch.empty(x.shape).stride(), x.storage_offset()))

    return {name: local for name, local in locals().items() if callable(local)}


def products() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Faults of a kernel that returns a @ b."""

    def sums(a: Tensor, b: Tensor) -> Tensor:
        return wide(a) @ wide(b)

    def rounded(x: Tensor, like: Tensor) -> Tensor:
        return x.to(like.dtype if like.is_floating_point() else torch.int32)

    def right(a: Tensor, b: Tensor) -> Tensor:
        return rounded(sums(a, b), a)

    def dropped_k(a: Tensor, b: Tensor) -> Tensor:
        return rounded(sums(a[:, :-1], b[:-1]), a)

    def small_accumulator(a: Tensor, b: Tensor) -> Tensor:
        total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float16)
        for k in range(a.shape[1]):
            total = total + (wide(a[:, k : k + 1]) * wide(b[k : k + 1])).to(torch.float16)
        return rounded(total, a)

    def wrong_rounding(a: Tensor, b: Tensor) -> Tensor:
        return cut(sums(a, b), a.dtype)

    def tail_of_columns(a: Tensor, b: Tensor) -> Tensor:
        out = rounded(sums(a, b), a)
        out.view(torch.uint8)[:, -out.element_size() :] = 0
        return out

    def sums_of_16_bits(a: Tensor, b: Tensor) -> Tensor:
        return rounded(sums(a, b).to(torch.int16), a)

    found = {name: local for name, local in locals().items() if callable(local)}
    return {name: kernel for name, kernel in found.items() if name not in {"sums", "rounded"}}


def said(work: Callable[[], None]) -> str:
    """The message of `verify` about a kernel; empty if `verify` accepts it."""
    try:
        work()
    except AssertionError as wrong:
        return str(wrong)
    return ""


def limits(dtype: torch.dtype) -> dict[str, Any]:
    return {"low": -4, "high": 4} if dtype.is_floating_point else {"low": -40, "high": 40}


def of_elements() -> Iterator[tuple[str, str, list[str]]]:
    for dtype in (*FLOATS, *INTEGERS):
        x = make((ROWS, COLUMNS), torch.float32, **limits(dtype)).to(dtype)
        if dtype == torch.int32:
            x = make((ROWS, COLUMNS), dtype, low=-(2**29), high=2**29)
        for name, op in elementwise().items():
            only = {"wrong_rounding": SMALL, "less_precision": FLOATS[:2]}
            if dtype not in only.get(name, (dtype,)):
                continue
            inputs = [
                laid_out(x, layout) for layout in (LAYOUTS if name in {"right", "ignores_strides"} else LAYOUTS[:1])
            ]
            verdicts = [said(partial(verify, op, function, [x], out=x, ulps=4)) for x in inputs]
            if name == "ignores_strides":
                verdicts = [";".join(verdicts)]
            yield str(dtype).removeprefix("torch."), name, verdicts


def of_products() -> Iterator[tuple[str, str, list[str]]]:
    for dtype in (*FLOATS, torch.int8):
        unit = {"low": -1, "high": 1} if dtype.is_floating_point else {"low": -128, "high": 128}
        source = torch.float32 if dtype.is_floating_point else dtype
        a = make((ROWS, DEPTH), source, **unit).to(dtype)
        b = make((DEPTH, COLUMNS), source, seed=1, **unit).to(dtype)
        for name, op in products().items():
            only = {"wrong_rounding": SMALL, "small_accumulator": FLOATS, "sums_of_16_bits": INTEGERS}
            if dtype not in only.get(name, (dtype,)):
                continue
            yield (
                f"{str(dtype).removeprefix('torch.')} product",
                name,
                [said(partial(verify, op, torch.mm, [a, b], terms=DEPTH))],
            )


def of_int4() -> Iterator[tuple[str, str, list[str]]]:
    """A product of packed int4 and int8."""
    values = make((ROWS, 512), torch.int8, low=-8, high=8)
    assert torch.equal(unpack_int4(pack_int4(values)), values)
    packed, other = pack_int4(values), make((512, COLUMNS), torch.int8, low=-128, high=128, seed=1)

    def reference(a: Tensor, b: Tensor) -> Tensor:
        return unpack_int4(a.to(torch.uint8)).long() @ b

    def right(a: Tensor, b: Tensor) -> Tensor:
        return (unpack_int4(a).long() @ b.long()).to(torch.int32)

    def halves_swapped(a: Tensor, b: Tensor) -> Tensor:
        return right(a << 4 | a >> 4, b)

    def no_sign(a: Tensor, b: Tensor) -> Tensor:
        return ((unpack_int4(a).long() & 0xF) @ b.long()).to(torch.int32)

    def dropped_k(a: Tensor, b: Tensor) -> Tensor:
        return (unpack_int4(a).long()[:, :-1] @ b.long()[:-1]).to(torch.int32)

    for kernel in (right, halves_swapped, no_sign, dropped_k):
        yield "int4 product", kernel.__name__, [said(partial(verify, kernel, reference, [packed, other]))]


Gradients = tuple[Tensor | None, Tensor | None]


def gated(gate: Tensor, up: Tensor) -> Tensor:
    return gate * torch.sigmoid(gate) * up


def gradients() -> dict[str, Callable[[Any, Tensor, Tensor, Tensor], Gradients]]:  # noqa: C901  (a list of faults)
    """Faults of the backward of `gated`: functions of the gradient of the output, gate and up."""

    def right(_ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401  (torch has no type)
        sigmoid = torch.sigmoid(gate)
        return grad * up * sigmoid * (1 + gate * (1 - sigmoid)), grad * gate * sigmoid

    def without_a_term(_ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401
        return grad * up * torch.sigmoid(gate), grad * gate * torch.sigmoid(gate)

    def for_one_input(ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401
        return right(ctx, grad, gate, up)[0], None

    def swapped(ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401
        of_gate, of_up = right(ctx, grad, gate, up)
        return of_up, of_gate

    def for_both_alone(ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401
        found = right(ctx, grad, gate, up)
        return found if all(ctx.needs_input_grad) else (None, None)

    def of_a_sum(ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401
        return right(ctx, torch.ones_like(grad), gate, up)

    def of_dense_gradients(ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401
        return right(ctx, grad if grad.is_contiguous() else 0 * grad, gate, up)

    def dropped_tail(ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401
        rows = torch.arange(grad.shape[0], device=grad.device)[:, None]
        return right(ctx, torch.where(rows == grad.shape[0] - 1, 0, grad), gate, up)

    def once(ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401
        return right(ctx, grad.detach(), gate.detach(), up.detach())

    def wrong_second(ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401
        return right(ctx, grad, gate.detach(), up)

    def less_precision(ctx: Any, grad: Tensor, gate: Tensor, up: Tensor) -> Gradients:  # noqa: ANN401
        of_gate, of_up = right(ctx, grad.bfloat16(), gate.bfloat16(), up.bfloat16())
        assert of_gate is not None
        assert of_up is not None
        return of_gate.to(grad.dtype), of_up.to(grad.dtype)

    return {name: local for name, local in locals().items() if callable(local)}


def differentiated(backward: Callable[[Any, Tensor, Tensor, Tensor], Gradients]) -> Callable[[Tensor, Tensor], Tensor]:
    """`gated` with a backward, which computes in a wider type, as a kernel does in registers."""

    class Gated(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:  # noqa: ANN401
            ctx.save_for_backward(gate, up)
            return gated(wide(gate), wide(up)).to(gate.dtype)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:  # noqa: ANN401
            tensors = ctx.saved_tensors
            found = backward(ctx, wide(grad), *map(wide, tensors))
            return tuple(None if gradient is None else gradient.to(grad.dtype) for gradient in found)

    return lambda gate, up: Gated.apply(gate, up)


def of_gradients() -> Iterator[tuple[str, str, list[str]]]:
    for dtype in FLOATS[:4]:
        inputs = [make((ROWS, COLUMNS), dtype, seed=seed, **limits(dtype)) for seed in range(2)]
        ops = {name: differentiated(backward) for name, backward in gradients().items()}
        ops["cut"] = lambda gate, up: gated(wide(gate.detach()), wide(up.detach())).to(gate.dtype)
        ops["cut_for_one"] = lambda gate, up: gated(wide(gate), wide(up.detach())).to(gate.dtype)
        for name, op in ops.items():
            # Widening a gradient of a small type makes it dense.
            if dtype not in SMALL or name not in {"less_precision", "of_dense_gradients"}:
                layouts = LAYOUTS if name == "right" else LAYOUTS[:1]
                verdicts = [
                    said(partial(verify_gradient, op, gated, [laid_out(x, layout) for x in inputs], terms=16))
                    for layout in layouts
                ]
                yield f"{str(dtype).removeprefix('torch.')} gradient", name, verdicts


found: dict[str, dict[str, Any]] = {}
for kind, name, verdicts in (*of_elements(), *of_products(), *of_int4(), *of_gradients()):
    found.setdefault(kind, {})[name] = verdicts
sys.stdout.write(json.dumps(found))
