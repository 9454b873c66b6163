"""The groups of sources that are compiled together: the binding's, a section's, and those that several of them list.

Upstream makes one target of each extension and sets flags for each source. So it compiles a source that two sections
list once, with the flags and architectures of both (kernel-builder, templates/kernel.cmake).
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
"""Upstream's builder writes this file and overwrites the project's; the rules have their own."""


class SourceGroup(NamedTuple):
    """Sources that are compiled with the same flags.

    Attributes:
        target: the name of their Bazel target.
        title: their name in messages.
        binding: whether the binding lists them.
        sections: the sections that list them, in the order of build.toml.
        sources: the sources, sorted.
    """

    target: str
    title: str
    binding: bool
    sections: tuple[Kernel, ...]
    sources: tuple[str, ...]


def archs_of(section: Kernel, toolkit: Toolkit) -> Archs:
    """The GPU architectures that a section is compiled for with a toolkit: its own, and those from its flags."""
    backend = BUILT[toolkit.family]
    more = [backend.choose(values(section.gencode), toolkit)] if section.gencode else []
    return united([backend.choose(section.requested, toolkit), *more])


def united(archs: Sequence[Archs]) -> Archs:
    """The union of at least one choice of architectures of a backend."""
    if len(archs) == 1:
        return archs[0]
    kept = {arch for choice in archs for arch in choice.kept}
    kept = {arch for arch in kept if f"{arch}+PTX" not in kept}
    return Archs(
        requested=tuple(dict.fromkeys(arch for choice in archs for arch in choice.requested)),
        kept=tuple(sorted(kept, key=arch_order)),
        dropped=tuple(
            {
                dropped.arch: dropped for choice in archs for dropped in choice.dropped if dropped.arch not in kept
            }.values()
        ),
    )


def split(files: Texts, family: str | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources and other files, each sorted: the order in build.toml has no meaning.

    Args:
        files: the files of a section or the binding.
        family: the backend that they are compiled for, which excludes sources in another backend's language; None for
            all.
    """
    names = sorted({text.value for text in files} - {REGISTRATION})
    sources = tuple(name for name in names if name.endswith(SOURCES) and (family is None or _is_for(name, family)))
    return sources, tuple(name for name in names if not name.endswith(SOURCES))


def _is_for(source: str, family: str) -> bool:
    return owner_of(source) is None or source.endswith(BUILT[family].sources)


def compiles(manifest: Manifest, family: str) -> bool:
    """Whether a project compiles for a backend: its kernel sections, or its binding if it has no sections.

    In a project with kernel sections, a backend without a section gets Python files only, as in upstream: the binding
    calls functions that a section defines.
    """
    alone = not manifest.kernels and family in BUILT and bool(split(manifest.framework.src, family)[0])
    return not manifest.framework.noarch and (alone or bool(manifest.sections(family)))


def listers(manifest: Manifest, family: str) -> dict[str, list[Kernel]]:
    """The sections of a backend that list a source, by source, in the order of build.toml."""
    found: dict[str, list[Kernel]] = {}
    for section in manifest.sections(family):
        for source in split(section.src)[0]:
            found.setdefault(source, []).append(section)
    return found


def source_groups(manifest: Manifest, family: str, admitted: Sequence[Kernel]) -> tuple[SourceGroup, ...]:
    """The groups of a backend: the binding first, then the sections, then the sources that several of them list.

    Args:
        manifest: the project's build.toml.
        family: the backend.
        admitted: its sections that the toolkit is recent enough for; the others are ignored.
    """
    table, binding = manifest.framework.table, binding_target(family)
    targets = {source: [binding] for source in split(manifest.framework.src, family)[0]}
    for source, sections in listers(manifest, family).items():
        targets.setdefault(source, []).extend(section.target for section in sections)
    lists: dict[tuple[str, ...], list[str]] = {}
    for source, by in sorted(targets.items()):
        lists.setdefault(tuple(by), []).append(source)
    built = {section.target: section for section in admitted}
    alone = [(binding,), *((target,) for target in built)]
    common = [by for by in lists if len(by) > 1 and (binding in by or any(name in built for name in by))]
    return tuple(
        _source_group(table, binding, tuple(built[name] for name in by if name in built), tuple(lists[by]), by)
        for by in (*alone, *common)
        if by in lists
    )


def _source_group(
    table: str, binding: str, sections: tuple[Kernel, ...], sources: tuple[str, ...], by: tuple[str, ...]
) -> SourceGroup:
    """A group; its name depends on which of the targets that list its sources are built.

    Args:
        table: the framework table, which lists the binding.
        binding: the binding's target.
        sections: the built sections that list the sources.
        sources: its sources.
        by: all targets that list them.
    """
    bound = binding in by
    names = (*([binding] if bound else []), *(section.target for section in sections))
    titles = (*([f"[{table}]"] if bound else []), *(section.title for section in sections))
    target = common_target(names, by) if len(by) > 1 else names[0]
    return SourceGroup(target, " and ".join(titles), bound, sections, sources)
