"""A release of a backend's compiler, and its choice among the GPU architectures of a kernel section."""

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
        archs: the GPU architectures that its compiler supports, ascending, e.g. `8.0`, `gfx942`.
        default_archs: the architectures of a kernel section that names none.
        host: the version of zig whose clang compiles host code.
        tested: whether this project has compiled with it.
    """

    family: str
    backend: str
    version: str
    archs: tuple[str, ...]
    default_archs: tuple[str, ...]
    host: str
    tested: bool


class Known(NamedTuple):
    """The GPU architectures that any release of a backend's compiler supports.

    Attributes:
        archs: as build.toml spells them: `8.0`, `9.0a`, `gfx942`.
        features: the architectures with a feature that can be switched on or off, by feature: `sramecc`, `xnack`.
        families: the plain architectures whose GPUs run the code for a family, by family: `10.0f`.
    """

    archs: tuple[str, ...] = ()
    features: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    families: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Dropped(NamedTuple):
    """A requested architecture that is not built, and the reason."""

    arch: str
    reason: str


class Archs(NamedTuple):
    """The choice among requested architectures.

    Attributes:
        requested: the requested architectures, in order.
        kept: the compiled ones, ascending.
        dropped: the others, in the order of the request.
    """

    requested: tuple[str, ...]
    kept: tuple[str, ...]
    dropped: tuple[Dropped, ...] = ()


def numbers(version: str) -> Version:
    """A version as numbers, which compare like versions: (2, 13) for `2.13`."""
    return tuple(int(part) for part in version.split("."))
