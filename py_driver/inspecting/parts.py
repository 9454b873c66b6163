"""Divides bytes without losing any: ranges of a file, and shares of what cannot be taken apart. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Label = TypeVar("Label")


class Range(NamedTuple, Generic[Label]):
    """Bytes of a file that belong to something: where they begin, how many they are, and what it is."""

    offset: int
    size: int
    label: Label


def divided(size: int, ranges: Iterable[Range[Label]]) -> tuple[list[tuple[Label, int]], int]:
    """How many bytes belong to each of some ranges, and how many to none: together those of the file.

    Bytes that several ranges have belong to the one that begins first, or is longer.

    Args:
        size: of the file.
        ranges: in any order; what lies outside of the file is not counted.
    """
    end, found = 0, []
    for part in sorted(ranges, key=lambda part: (part.offset, -part.size)):
        begin = max(end, part.offset)
        stop = min(part.offset + part.size, size)
        found.append((part.label, max(0, stop - begin)))
        end = max(end, stop)
    return found, size - sum(count for _, count in found)


def shares(total: int, weights: Sequence[int]) -> list[int]:
    """A number divided in proportion to weights, into whole numbers whose sum it is (largest remainders).

    Args:
        total: the number; nothing is left of it if there is a weight.
        weights: at least 0; where all are 0, all count the same.
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
