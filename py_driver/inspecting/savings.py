"""Ways to make libraries smaller, with the bytes that each saves. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.inspecting.images import AMDGPU, PTX, SASS
from py_driver.inspecting.size_groups import SHARED, by_arch, by_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py_driver.inspecting.compression import Compressed
    from py_driver.inspecting.size import ImageFacts, Library
    from py_driver.inspecting.size_groups import Group

_KERNELS: Final = 3
_FOR_DEBUGGERS: Final = ("symbol table", "debug information")
_SUFFIXES: Final = "af"


class Saving(NamedTuple):
    """A way to save bytes.

    Attributes:
        kind: `compression`, `symbols`, `ptx`, `arch`, `family` or `instances`.
        subject: the architecture, the family, the kernel, or the choice of compression; empty for symbols.
        bytes: the number of saved bytes.
        exact: whether the bytes are exact; otherwise another build may have different code.
        how: what to do, and how the figure was obtained.
    """

    kind: str
    subject: str
    bytes: int
    exact: bool
    how: str

    def as_json(self) -> dict[str, Any]:
        """The saving as a value for JSON."""
        return self._asdict()


def savings_of(
    libraries: Sequence[Library], packed: Sequence[Compressed], families: Mapping[str, Sequence[str]]
) -> list[Saving]:
    """The possible savings, each on its own; together they save less.

    Args:
        libraries: the libraries.
        packed: the results of compressing them, as far as known.
        families: the architectures whose GPUs run the code of a family, by family.
    """
    found = [
        Saving(
            "compression",
            result.choice,
            result.before - result.after,
            exact=True,
            how=f"driver build --compress {result.choice}: {result.before:,} bytes of device code become "
            f"{result.after:,} with {result.method}",
        )
        for result in packed
        if result.after < result.before
    ]
    symbols = sum(piece.stored for library in libraries for piece in library.pieces if piece.kind in _FOR_DEBUGGERS)
    if symbols:
        how = "remove symbols of the host code, which only debuggers and profilers read: strip --strip-all"
        found.append(Saving("symbols", "", symbols, exact=False, how=how))
    groups = by_arch(libraries)
    for group in groups:
        if group.kind == PTX:
            how = "build without +PTX: GPUs newer than all architectures then have no code"
            found.append(Saving("ptx", group.name, group.stored, group.exact, how))
    machine = [group for group in groups if group.kind in {SASS, AMDGPU}]
    for group in machine if len(machine) > 1 else ():
        left = _left(group.name, groups)
        found.append(Saving("arch", group.name, group.stored, group.exact, f"drop it: its GPUs then {left}"))
    found += _families(libraries, families)
    several = [group for group in by_kernel(libraries) if group.members > 1 and not group.name.startswith(SHARED)]
    for group in several[:_KERNELS]:
        each = group.stored // group.members
        how = f"instantiate it less often: {group.members} instances, {each:,} bytes each on average"
        found.append(Saving("instances", group.name, each, exact=False, how=how))
    return found


def _left(arch: str, groups: Sequence[Group]) -> str:
    """The fallback of an architecture's GPUs without code for it.

    Machine code runs on GPUs with the same major and a higher minor number, PTX on all later ones ("Binary
    Compatibility" and "PTX Compatibility" of the CUDA programming guide); architecture-specific code does not.

    Args:
        arch: the architecture.
        groups: all architectures.
    """
    own = _version(arch)
    others = [group for group in groups if group.name[-1:] not in _SUFFIXES]
    machine = [_version(group.name) for group in others if group.kind == SASS and group.name != arch]
    older = [version for version in machine if version[:1] == own[:1] and version < own]
    if older:
        return f"run the machine code for {_spelled(max(older))}"
    text = [version for group in others if group.kind == PTX and own >= (version := _version(group.name))]
    return f"compile the PTX for {_spelled(max(text))}" if text else "have no code"


def _version(arch: str) -> tuple[int, ...]:
    """The numbers of a CUDA architecture; empty for others."""
    words = arch.rstrip(_SUFFIXES).split(".")
    return (*map(int, words),) if all(word.isdigit() for word in words) else ()


def _spelled(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _families(libraries: Sequence[Library], families: Mapping[str, Sequence[str]]) -> Iterator[Saving]:
    """The savings from code for a family instead of its architectures: all images but the largest."""
    for family, members in families.items():
        saved, replaced = 0, set()
        for library in libraries:
            binaries: dict[int, list[ImageFacts]] = {}
            for image in library.images:
                if image.form == SASS and image.arch.rstrip(_SUFFIXES) in members:
                    binaries.setdefault(image.binary, []).append(image)
            for images in binaries.values():
                if len({image.arch.rstrip(_SUFFIXES) for image in images}) > 1:
                    saved += sum(image.stored for image in images) - max(image.stored for image in images)
                    replaced |= {image.arch for image in images}
        if saved:
            words = " and ".join(sorted(replaced))
            how = f"build for {family} instead of {words}, if an image for it is as large as the larger one"
            yield Saving("family", family, saved, exact=False, how=how)
