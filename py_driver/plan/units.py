"""Which sources are compiled together: those of the binding, of a section, and those that several of them list.

Upstream makes one target of each extension and sets flags source by source. So a source that two sections list is
compiled once there, with the flags and architectures of both (kernel-builder, templates/kernel.cmake).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.manifest.model import values
from py_driver.manifest.paths import SOURCES
from py_driver.manifest.targets import binding_target, common_target
from py_driver.matrix.backends import BUILT, arch_order, owner_of
from py_driver.matrix.toolkits import Archs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.manifest.model import Kernel, Manifest, Texts
    from py_driver.matrix.toolkits import Toolkit

REGISTRATION = "torch-ext/registration.h"
"""Upstream's builder writes this file, over one that a project has; the rules bring their own."""


class Unit(NamedTuple):
    """Sources that are compiled with the same flags.

    Attributes:
        target: what Bazel calls them.
        title: what messages call them.
        binding: whether the binding lists them.
        sections: the sections that list them, in the order of build.toml.
        sources: sorted.
    """

    target: str
    title: str
    binding: bool
    sections: tuple[Kernel, ...]
    sources: tuple[str, ...]


def archs_of(section: Kernel, toolkit: Toolkit) -> Archs:
    """The GPU architectures that a section is compiled for with a toolkit: what it lists, and what its flags add."""
    backend = BUILT[toolkit.family]
    more = [backend.choose(values(section.gencode), toolkit)] if section.gencode else []
    return united([backend.choose(section.requested, toolkit), *more])


def united(archs: Sequence[Archs]) -> Archs:
    """All of some choices of architectures of one backend, of which there is one at least."""
    if len(archs) == 1:
        return archs[0]
    kept = {arch for one in archs for arch in one.kept}
    kept = {arch for arch in kept if f"{arch}+PTX" not in kept}
    return Archs(
        requested=tuple(dict.fromkeys(arch for one in archs for arch in one.requested)),
        kept=tuple(sorted(kept, key=arch_order)),
        dropped=tuple(
            {dropped.arch: dropped for one in archs for dropped in one.dropped if dropped.arch not in kept}.values()
        ),
    )


def split(files: Texts, family: str | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources and all else, each sorted: the order in build.toml means nothing.

    Args:
        files: of a section or the binding.
        family: the backend that they are compiled for; a source of another one's language is none. None for any.
    """
    names = sorted({text.value for text in files} - {REGISTRATION})
    sources = tuple(name for name in names if name.endswith(SOURCES) and (family is None or _is_for(name, family)))
    return sources, tuple(name for name in names if not name.endswith(SOURCES))


def _is_for(source: str, family: str) -> bool:
    return owner_of(source) is None or source.endswith(BUILT[family].sources)


def units(manifest: Manifest, family: str, admitted: Sequence[Kernel]) -> tuple[Unit, ...]:
    """What is compiled for a backend: the binding first, then the sections, then what several of them list.

    Args:
        manifest: of the project.
        family: the backend.
        admitted: its sections that the toolkit is recent enough for; the others do not count for their sources.
    """
    every, table = manifest.sections(family), manifest.framework.table
    binding = split(manifest.framework.src, family)[0]
    lists = {one.target: split(one.src)[0] for one in every}
    lists = {binding_target(family): binding, **lists}
    listers: dict[str, list[str]] = {}
    for target, sources in lists.items():
        for source in sources:
            listers.setdefault(source, []).append(target)
    common = {source: tuple(by) for source, by in sorted(listers.items()) if len(by) > 1}
    own = {target: tuple(one for one in sources if one not in common) for target, sources in lists.items()}
    found = [_unit(table, family, (), own[binding_target(family)], bound=True)]
    found += [_unit(table, family, (one,), own[one.target], bound=False) for one in admitted]
    known = {one.target: one for one in admitted}
    together: dict[tuple[str, ...], list[str]] = {}
    for source, by in common.items():
        together.setdefault(by, []).append(source)
    for by, shared in together.items():
        sections = tuple(known[target] for target in by if target in known)
        if (bound := binding_target(family) in by) or sections:
            found.append(_unit(table, family, sections, tuple(shared), bound=bound, by=by))
    return tuple(one for one in found if one.sources)


def _unit(  # noqa: PLR0913  (whose, for what, and which)
    table: str,
    family: str,
    sections: tuple[Kernel, ...],
    sources: tuple[str, ...],
    *,
    bound: bool,
    by: tuple[str, ...] = (),
) -> Unit:
    """A unit; its name tells which of all targets that list its sources are built.

    Args:
        table: the framework table, which lists the binding.
        family: the backend.
        sections: that list the sources and are built.
        sources: of it.
        bound: whether the binding lists them too.
        by: the targets of all that list them, if these are several.
    """
    names = (*([binding_target(family)] if bound else []), *(one.target for one in sections))
    titles = (*([f"[{table}]"] if bound else []), *(one.title for one in sections))
    target = common_target(names, by) if by else names[0]
    return Unit(target, " and ".join(titles), bound, sections, sources)
