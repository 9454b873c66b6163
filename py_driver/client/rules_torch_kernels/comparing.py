"""An answer of a candidate beside that of its reference: whether it is right, and its worst element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.testing._comparison import get_tolerances

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def compare(got: Any, wanted: Any, tolerance: Any) -> dict[str, Any]:  # noqa: ANN401
    """Whether an answer is right, and its worst element.

    Where the reference has NaN, NaN is right.

    Args:
        got: the answer: a tensor, a number, or a list of them.
        wanted: that of the reference.
        tolerance: a number, or `rtol` and `atol`; as torch.testing has it for the type if None.
    """
    many = isinstance(wanted, list | tuple)
    pairs: list[tuple[Any, Any]] = [(got, wanted)]
    if many:
        if not isinstance(got, list | tuple) or len(got) != len(wanted):
            length = len(got) if isinstance(got, list | tuple) else 1
            return wrong(f"{length} values instead of {len(wanted)}")
        pairs = list(zip(got, wanted, strict=True))
    found = []
    for number, (own, other) in enumerate(pairs):
        result = _compared(own, other, tolerance)
        if many and "worst" in result:
            result["worst"]["output"] = number
        if many and "reason" in result:
            result["reason"] = f"output {number}: {result['reason']}"
        found.append(result)
    failed = [result for result in found if result["status"] == "wrong"]
    if unequal := [result for result in failed if "worst" not in result]:
        return unequal[0]
    return max(failed or found, key=_badness, default={"status": "right"})


def _badness(result: Mapping[str, Any]) -> tuple[float, float]:
    """How far an answer is from right, and from the reference."""
    worst = result.get("worst", {})
    return float(worst.get("excess", "-inf")), float(worst.get("error", 0.0))


def wrong(reason: str) -> dict[str, Any]:
    """What is told of an answer that is no number beside another.

    Args:
        reason: why it is wrong.
    """
    return {"status": "wrong", "reason": reason}


def _compared(got: Any, wanted: Any, tolerance: Any) -> dict[str, Any]:  # noqa: ANN401
    """One value of an answer."""
    if not isinstance(wanted, torch.Tensor):
        if not isinstance(wanted, bool | int | float | complex):
            same = bool(got == wanted)
            return {"status": "right"} if same else wrong(f"{got!r} instead of {wanted!r}")
        wanted = torch.tensor(wanted)
        got = torch.tensor(got) if isinstance(got, bool | int | float | complex) else got
    if not isinstance(got, torch.Tensor):
        return wrong(f"{type(got).__name__} instead of a tensor")
    for name in ("shape", "dtype"):
        own, other = (getattr(value, name) for value in (got, wanted))
        if own != other:
            return wrong(
                f"{name} {tuple(own) if name == 'shape' else own} instead of "
                f"{tuple(other) if name == 'shape' else other}"
            )
    if got.device.type != wanted.device.type:
        return wrong(f"device {got.device} instead of {wanted.device}")
    rtol, atol = _tolerances(tolerance, wanted.dtype)
    kind = torch.complex128 if wanted.dtype.is_complex else torch.float64 if wanted.is_floating_point() else torch.int64
    got, wanted = (value.detach().cpu().to(kind) for value in (got, wanted))
    if wanted.numel() == 0:
        return {"status": "right"}
    same = (got == wanted) | (got.isnan() & wanted.isnan()) if kind is not torch.int64 else got == wanted
    own, other = (
        value if value.is_floating_point() or value.is_complex() else value.double() for value in (got, wanted)
    )
    error = (own - other).abs()
    # Integers may be too large to differ as doubles.
    error = torch.where(~same & (error == 0), 1.0, error)
    excess = error - (atol + rtol * other.abs())
    # An error that is no number, or infinite, is the worst.
    excess = torch.where(same, -float("inf"), excess.nan_to_num(float("inf"), float("inf"), float("inf")))
    error = torch.where(same, 0.0, error)
    right = bool((excess <= 0).all())
    position = int(excess.argmax() if not right else error.argmax())
    worst = {
        "index": _index(position, wanted.shape),
        "got": _number(got.flatten()[position]),
        "wanted": _number(wanted.flatten()[position]),
        "error": _number(error.flatten()[position]),
        "excess": _finite(float(excess.flatten()[position])),
    }
    result: dict[str, Any] = {"status": "right" if right else "wrong", "worst": worst}
    if not right:
        count = int((excess > 0).sum())
        result["reason"] = f"{count} of {wanted.numel()} elements differ by more than {atol:g} + {rtol:g} * |wanted|"
    return result


def _index(position: int, shape: Sequence[int]) -> list[int]:
    """Where an element of a flat tensor is; `torch.unravel_index` would load modules for half a second in each process.

    Args:
        position: of the element.
        shape: of the tensor.
    """
    found = []
    for size in reversed(shape):
        position, rest = divmod(position, size)
        found.append(rest)
    return found[::-1]


def _tolerances(tolerance: Any, dtype: torch.dtype) -> tuple[float, float]:  # noqa: ANN401
    """The relative and the absolute one."""
    if tolerance is None:
        rtol, atol = get_tolerances(dtype, rtol=None, atol=None)
        return float(rtol), float(atol)
    if isinstance(tolerance, dict):
        return float(tolerance.get("rtol", 0)), float(tolerance.get("atol", 0))
    return float(tolerance), float(tolerance)


def _number(value: torch.Tensor) -> Any:  # noqa: ANN401
    """A number for JSON, which has neither NaN nor infinity nor complex ones."""
    plain = value.item()
    return str(plain) if isinstance(plain, complex) else _finite(plain)


def _finite(value: float) -> float | str:
    return value if isinstance(value, int) or abs(value) < float("inf") else str(value)
