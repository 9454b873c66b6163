"""The bytes of libraries by section, architecture, kernel, instance and host function. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.inspecting.assembly import plain, stable_name, without_arguments
from py_driver.inspecting.disassembler import demangled
from py_driver.inspecting.images import PTX
from py_driver.inspecting.size import DEVICE
from py_driver.matrix.backends import ARCH, arch_order

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from py_driver.inspecting.size import Library, Piece

SHARED: Final = "shared by kernels"
"""The name for device bytes without a kernel: symbols, names, headers."""


WHOLE: Final = "whole"
"""The name for libraries that are not slices."""


class Group(NamedTuple):
    """Bytes that belong together.

    Attributes:
        name: the name of a slice, a section, an architecture, a kernel, ...
        kind: the kind of a section's content; `SASS` or `PTX` for an architecture.
        stored: the bytes in the files.
        size: the bytes without compression.
        exact: whether `stored` is exact; otherwise it contains shares of compressed images.
        members: the number of an architecture's images, a kernel's instances, or a section's or slice's libraries.
        archs: the architectures of a kernel or a slice.
    """

    name: str
    kind: str
    stored: int
    size: int
    exact: bool
    members: int
    archs: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The group as a value for JSON."""
        return {**self._asdict(), "archs": [*self.archs]}


def by_section(libraries: Sequence[Library]) -> list[Group]:
    """The sections, the largest first."""
    pieces = [(number, piece) for number, library in enumerate(libraries) for piece in library.pieces]
    found = _groups(pieces, lambda piece: (piece.section, piece.kind), lambda number, _: number)
    return [group._replace(exact=True) for group in found]


def by_slice(libraries: Sequence[Library]) -> list[Group]:
    """The slices, preceded by variants that are not slices, by the size of their files."""
    own: dict[str, list[Library]] = {}
    for library in sorted(libraries, key=lambda library: (bool(library.slice), len(library.slice), library.slice)):
        own.setdefault(library.slice or WHOLE, []).append(library)
    return [
        Group(
            name,
            "",
            sum(library.size for library in found),
            sum(piece.size for library in found for piece in library.pieces),
            exact=True,
            members=len(found),
            archs=(*sorted({image.arch for library in found for image in library.images}, key=_order),),
        )
        for name, found in own.items()
    ]


def by_arch(libraries: Sequence[Library]) -> list[Group]:
    """The architectures of device code, ascending, PTX after machine code."""
    pieces = [
        (number, piece) for number, library in enumerate(libraries) for piece in library.pieces if piece.image >= 0
    ]
    found = _groups(pieces, lambda piece: (piece.arch, piece.form), lambda number, piece: (number, piece.image))
    images = [image for library in libraries for image in library.images if image.shared]
    shared = {(image.arch, image.form) for image in images}
    found = [group._replace(exact=(group.name, group.kind) not in shared) for group in found]
    return sorted(found, key=lambda group: (group.kind == PTX, *_order(group.name)))


def by_kernel(libraries: Sequence[Library]) -> list[Group]:
    """Kernels and other device functions without their template arguments, the largest first."""
    return _of_device(libraries, lambda piece: kernel_of(name_of(piece.symbol)))


def by_instance(libraries: Sequence[Library]) -> list[Group]:
    """Kernels and other device functions with their template arguments, the largest first."""
    return _of_device(libraries, lambda piece: plain(name_of(piece.symbol)))


def by_function(libraries: Sequence[Library]) -> list[Group]:
    """Host functions and objects, the largest first."""
    pieces = [(0, piece) for library in libraries for piece in library.pieces if piece.symbol and piece.image < 0]
    return _groups(pieces, lambda piece: (plain(name_of(piece.symbol)), piece.kind), lambda _, piece: piece.symbol)


def _of_device(libraries: Sequence[Library], name: Callable[[Piece], str]) -> list[Group]:
    """Device code, grouped by name."""
    pieces = [(0, piece) for library in libraries for piece in library.pieces if piece.kind == DEVICE]
    return _groups(
        pieces,
        lambda piece: (name(piece) if piece.symbol else f"{SHARED}: {piece.part}", ""),
        lambda _, piece: piece.symbol,
    )


def _groups(
    pieces: Iterable[tuple[int, Piece]],
    key: Callable[[Piece], tuple[str, str]],
    counted: Callable[[int, Piece], Hashable],
) -> list[Group]:
    """Pieces by name and kind, the largest first.

    Args:
        pieces: each with the number of its library.
        key: returns name and kind of a piece.
        counted: returns what to count, from the number and the piece.
    """
    found: dict[tuple[str, str], list[tuple[int, Piece]]] = {}
    for number, piece in pieces:
        found.setdefault(key(piece), []).append((number, piece))
    groups = [
        Group(
            name,
            kind,
            sum(piece.stored for _, piece in own),
            sum(piece.size for _, piece in own),
            exact=all(piece.exact for _, piece in own),
            members=len({counted(number, piece) for number, piece in own} - {""}),
            archs=(*sorted({piece.arch for _, piece in own if piece.arch}, key=_order),),
        )
        for (name, kind), own in found.items()
    ]
    return sorted(groups, key=lambda group: (-group.stored, group.name, group.kind))


def _order(arch: str) -> tuple[int, Any, str]:
    """The sort key of architectures, including unknown ones."""
    return (*arch_order(arch), arch) if re.fullmatch(ARCH, arch) else (1 << 10, (0, 0, ""), arch)


@cache
def name_of(symbol: str) -> str:
    """The C++ name of a symbol, the same in each build."""
    return stable_name(demangled(symbol))


@cache
def kernel_of(name: str) -> str:
    """A function's name without parameters and template arguments.

    Args:
        name: the C++ name.
    """
    return without_arguments(name)
