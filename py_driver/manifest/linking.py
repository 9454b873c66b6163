"""nvcc's flags for linking device code, as in rules/private/linking.bzl."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FLAGS = facts("flags")


class Linking(NamedTuple):
    """The linking of a source's device code.

    Attributes:
        relocatable: whether it is linked with other sources' device code.
        optimized: whether it is optimised at link time.
    """

    relocatable: bool
    optimized: bool


def linking_of(flags: Iterable[str]) -> Linking:
    """The linking that flags for nvcc request; the last of `-rdc=true` and `-rdc=false` counts."""
    words = iter(flags)
    relocatable = optimized = False
    for flag in words:
        name, equals, value = flag.partition("=")
        if name in _FLAGS["RELOCATABLE"]:
            relocatable = (value if equals else next(words, "")) == "true"
        relocatable |= flag in _FLAGS["RELOCATABLE_ALONE"]
        optimized |= flag in _FLAGS["LINK_TIME_OPTIMIZATION"]
    return Linking(relocatable or optimized, optimized)


def link_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags of nvcc that change the result of linking device code, each as one word."""
    found = []
    words = iter(flags)
    for flag in words:
        name, equals, _ = flag.partition("=")
        if name not in _FLAGS["OF_DEVICE_LINK"]:
            continue
        if not equals and name not in _FLAGS["OF_DEVICE_LINK_ALONE"]:
            flag = f"{name}={next(words, '')}"  # noqa: PLW2901  (as one word)
        found.append(flag)
    return tuple(dict.fromkeys(found))
