"""Divides bytes without losing any: ranges of a file, and shares of indivisible parts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Label = TypeVar("Label")


class Range(NamedTuple, Generic[Label]):
    """Bytes of a file that belong together: their start, their number and their label."""

    offset: int
    size: int
    label: Label


def divided(size: int, ranges: Iterable[Range[Label]]) -> tuple[list[tuple[Label, int]], int]:
    """The bytes of each range, and the bytes outside of ranges: their sum is the size of the file.

    Bytes in several ranges belong to the range that begins first, or is longer.

    Args:
        size: the size of the file.
        ranges: the ranges, in any order; parts outside of the file are not counted.
    """
    end, found = 0, []
    for part in sorted(ranges, key=lambda part: (part.offset, -part.size)):
        begin = max(end, part.offset)
        stop = min(part.offset + part.size, size)
        found.append((part.label, max(0, stop - begin)))
        end = max(end, stop)
    return found, size - sum(count for _, count in found)


def shares(total: int, weights: Sequence[int]) -> list[int]:
    """A number divided in proportion to weights into integers with the same sum (largest remainders).

    Args:
        total: the number; it is divided completely if there is a weight.
        weights: the weights, at least 0; if all are 0, the shares are equal.
    """
    if not weights:
        return []
    counted = weights if sum(weights) else [1] * len(weights)
    every = sum(counted)
    found = [total * weight // every for weight in counted]
    left = total - sum(found)
    order = sorted(range(len(counted)), key=lambda index: (-(total * counted[index] % every), index))
    for index in order[:left]:
        found[index] += 1
    return found
