"""A release of a backend's compiler, and what becomes of the GPU architectures that a kernel section asks of it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Version = tuple[int, ...]
"""A version as numbers."""


class Toolkit(NamedTuple):
    """A release of CUDA or ROCm.

    Attributes:
        family: the backend without its version: `cuda`, `rocm`.
        backend: the backend of its variants: `cu130`, `rocm72`.
        version: major and minor, e.g. `13.0`.
        archs: the GPU architectures that its compiler knows, ascending, e.g. `8.0`, `gfx942`.
        default_archs: what a kernel section that names no architecture asks for.
        host: the version of zig whose clang compiles host code.
        tested: whether this project compiled with it.
    """

    family: str
    backend: str
    version: str
    archs: tuple[str, ...]
    default_archs: tuple[str, ...]
    host: str
    tested: bool


class Known(NamedTuple):
    """The GPU architectures that some compiler of a backend knows or has known.

    Attributes:
        archs: as build.toml spells them: `8.0`, `9.0a`, `gfx942`.
        features: which of them have a feature that can be switched on or off, by its name: `sramecc`, `xnack`.
        families: the plain architectures whose GPUs run the code for a family, by its name: `10.0f`.
    """

    archs: tuple[str, ...] = ()
    features: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    families: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Dropped(NamedTuple):
    """An architecture that was asked for and is not built, and why."""

    arch: str
    reason: str


class Archs(NamedTuple):
    """What became of the architectures that were asked for.

    Attributes:
        requested: what was asked for, in that order.
        kept: what is compiled, ascending.
        dropped: the rest, in the order asked for.
    """

    requested: tuple[str, ...]
    kept: tuple[str, ...]
    dropped: tuple[Dropped, ...] = ()


def numbers(version: str) -> Version:
    """A version as numbers, which compare as versions do: (2, 13) for `2.13`."""
    return tuple(int(part) for part in version.split("."))
