"""The flags that ask for OpenMP, as in rules/private/openmp.bzl."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FLAGS: Final = facts("flags")


def asks_for_openmp(flags: Iterable[str]) -> bool:
    """Whether flags of a host compiler ask for OpenMP."""
    on, off, library = (_FLAGS[f"OPENMP_{name}"] for name in ("ON", "OFF", "LIBRARY"))
    asked = [flag for flag in flags if flag in {on, off, library}]
    return library in asked or asked[-1:] == [on]


def gpu_asks_for_openmp(cuda_flags: Sequence[str], hip_flags: Sequence[str]) -> bool:
    """Whether flags of the compilers for GPU sources ask for OpenMP in host code.

    Args:
        cuda_flags: the flags for nvcc, which passes a list on with `-Xcompiler`.
        hip_flags: the flags for HIP's compiler.
    """
    host: list[str] = []
    for flag, following in pairwise([*cuda_flags, ""]):
        name, equals, value = flag.partition("=")
        if name in _FLAGS["PASS_ON"]:
            host += (value if equals else following).split(",")
    return asks_for_openmp(host) or asks_for_openmp(hip_flags)
