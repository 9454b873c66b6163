"""The kernel sections of a project: sources that setup.py compiles alike, with its flags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.adopting.losses import Loss
from py_driver.manifest.linking import link_flags, linking_of
from py_driver.manifest.model import TORCH
from py_driver.matrix.backends import arch_order
from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan, Variant
    from py_driver.recording.record import Module

_ASSERTING: Final = ("assert", "NDEBUG")
"""Words of a file that show whether a definition of NDEBUG matters."""

_OWN: Final = ("-DTORCH_API_INCLUDE_EXTENSION_H", "-DTORCH_EXTENSION_NAME=")
"""Macros that torch defines for a setup.py; for a kernel, the rules define them if needed."""


class Section(NamedTuple):
    """A kernel section.

    Attributes:
        name: its label.
        backend: `cpu` or `cuda`.
        sources: the sources to compile.
        headers: the headers that they include.
        include: the include directories.
        cxx_flags: the flags for C++.
        cuda_flags: the flags for nvcc.
        depends: `torch` if they include its headers.
        capabilities: the CUDA architectures in setup.py's flags; None for the default ones.
    """

    name: str
    backend: str
    sources: tuple[str, ...]
    headers: tuple[str, ...]
    include: tuple[str, ...]
    cxx_flags: tuple[str, ...]
    cuda_flags: tuple[str, ...]
    depends: tuple[str, ...]
    capabilities: tuple[str, ...] | None


def chosen_modules(modules: Sequence[Module], backend: str) -> tuple[list[Module], list[Loss]]:
    """Choose modules for a single library; modules that compile the same sources in another way are losses.

    Args:
        modules: the modules of a configuration.
        backend: its backend.
    """
    kept: list[Module] = []
    losses = []
    for module in sorted(modules, key=lambda module: (module.kind != backend, -len(module.sources))):
        rival = next((other for other in kept if not set(other.sources).isdisjoint(module.sources)), None)
        if rival is None:
            kept.append(module)
            continue
        reason = f"the module {module.name} is left out for {backend}: {rival.name} has the same sources"
        advice = "a kernel is one library, and its variant for another backend has the other module"
        losses.append(Loss(module.script, module.line, reason, advice, missing=False))
    return sorted(kept, key=modules.index), losses


def sections_of(
    plans: Sequence[Plan], variants: Sequence[Variant], modules: Sequence[Module], mentions: Callable[[str, str], bool]
) -> tuple[list[Section], list[Loss]]:
    """The sections of modules for a backend.

    Args:
        plans: the plans of the project.
        variants: the modules' variants for that backend, of all configurations; the first configuration decides.
        modules: the modules of the kernel.
        mentions: whether a file, given by path, contains a word.
    """
    groups = {group.name: group for plan in plans for group in plan.groups}
    sections: list[Section] = []
    losses = []
    for module in modules:
        own = [variant for variant in variants if variant.module == module.name]
        named = [groups[name] for name in own[0].groups]
        for other in own[1:]:
            others = [groups[name] for name in other.groups]
            if [_compiled(group) for group in others] != [_compiled(group) for group in named]:
                reason = f"{module.name} is compiled in another way for {other.configuration.backend}"
                advice = f"the kernel is compiled for it as for {own[0].configuration.backend}"
                losses.append(Loss(module.script, module.line, reason, advice, missing=False))
        every = [groups[name] for variant in own for name in variant.groups]
        for group in named:
            archs = _capabilities(module, [other for other in every if other.sources == group.sources])
            section = _section(module, group, archs, mentions)
            _add(sections, section)
            linked = linking_of(section.cuda_flags).relocatable
            if linked and group.link_flags != link_flags(section.cuda_flags):
                reason = f"{module.name} links device code with other flags than it compiles with"
                flags = " ".join(f"`{flag}`" for flag in group.link_flags) or "none"
                advice = f"a kernel links it with the flags in `cuda-flags`; setup.py links it with {flags}"
                losses.append(Loss(module.script, module.line, reason, advice))
    return _with_archs(sections), losses


def _with_archs(sections: Sequence[Section]) -> list[Section]:
    """Give sections without device code the architectures of the others.

    A kernel section without architectures is for the default ones, and metadata.json would declare these.
    """
    device = [section.capabilities for section in sections if section.cuda_flags]
    if not device or None in device:
        return list(sections)
    archs = {arch for capabilities in device for arch in capabilities or ()}
    archs -= {arch.removesuffix("+PTX") for arch in archs if arch.endswith("+PTX")}
    every = tuple(sorted(archs, key=arch_order))
    return [section if section.cuda_flags else section._replace(capabilities=every) for section in sections]


def _add(sections: list[Section], section: Section) -> None:
    """Add a section; merge it with a section that compiles other sources of the module alike."""
    for at, other in enumerate(sections):
        if section._replace(sources=(), headers=()) == other._replace(sources=(), headers=()):
            sections[at] = other._replace(
                sources=tuple(sorted({*other.sources, *section.sources})),
                headers=tuple(sorted({*other.headers, *section.headers})),
            )
            return
    sections.append(section)


def _compiled(group: Group) -> tuple[object, ...]:
    return group.sources, group.headers, group.includes, group.cxx_flags, group.cuda_flags


def _capabilities(module: Module, groups: Iterable[Group]) -> tuple[str, ...] | None:
    """The architectures in the flags of a module, in all configurations; None if there are none."""
    if not any(re.search(r"-gencode|-arch|--gpu-architecture|--generate-code", flag) for flag in module.nvcc_flags):
        return None
    asked = {arch for group in groups for archs in group.archs.values() for arch in archs.requested}
    asked -= {arch.removesuffix("+PTX") for arch in asked if arch.endswith("+PTX")}
    return tuple(sorted(asked, key=arch_order)) or None


def _section(
    module: Module, group: Group, capabilities: tuple[str, ...] | None, mentions: Callable[[str, str], bool]
) -> Section:
    files = (*group.sources, *group.headers)
    backend = facts("backends")["BACKENDS"][group.backend]
    defined = [macro.partition("=")[0] for macro in (backend["macro"], *backend["defines"])]
    # Macros that the rules define and setup.py does not: undefined if a file tests them.
    kept = {f"-U{macro}" for macro in defined if any(mentions(file, macro) for file in files)}
    dropped = {f"-U{macro}" for macro in defined} - kept
    if not any(mentions(file, word) for file in files for word in _ASSERTING):
        dropped.add("-UNDEBUG")
    device = bool(group.archs)

    def flags(of_group: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(flag for flag in of_group if flag not in dropped and not flag.startswith(_OWN))

    name = re.sub(r"\W+", "_", module.name.rpartition(".")[2]).strip("_")
    suffix = "" if name.endswith(group.backend) else f"_{group.backend}"
    return Section(
        name=f"{name}{suffix}" if device or group.backend == "cpu" else f"{name}{suffix}_host",
        backend=group.backend,
        sources=group.sources,
        headers=group.headers,
        include=group.includes,
        cxx_flags=flags(group.cxx_flags),
        cuda_flags=flags(group.cuda_flags),
        depends=(TORCH,) if TORCH in group.depends else (),
        capabilities=capabilities if device else None,
    )
