"""The CPU that a section is for, according to the flags of its host code: build.toml has no key for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from py_driver.matrix.configurations import CPUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from py_driver.manifest.model import Kernel, Manifest, Text
    from py_driver.manifest.section import Findings

_FLAG = re.compile(r"-m(?<![^=,]-m)(?!axrregcount|llvm|(?:no-)?omit-leaf-frame-pointer)([^,]+)")
"""A flag of the host compiler for instructions, also as nvcc passes it on (`-Xcompiler=-mavx2`).

The text before it is checked last: searching for a pattern that begins with a literal is 20 times as fast.
"""

_NAMED = re.compile("(?:arch|tune|cpu)=(.+)")
_ANY = "generic"
_ARM = re.compile("arm|cortex|neoverse|a64fx|ampere|apple|carmel|thunderx|tsv110|oryon|grace")
"""Prefixes of Arm's architectures and CPUs."""

_X86_64, _AARCH64 = CPUS


class _Bound(NamedTuple):
    """The flag that binds a part of a project to a CPU.

    Attributes:
        title: the part: `[kernel.relu]`.
        flag: the flag.
        cpu: the CPU.
    """

    title: str
    flag: Text
    cpu: str


def cpu_of(flag: str) -> str | None:
    """The CPU that a flag is for; None for a flag for all CPUs."""
    for found in _FLAG.finditer(flag):
        named = _NAMED.fullmatch(found[1])
        if named is None:
            return _X86_64
        if named[1] != _ANY:
            return _AARCH64 if _ARM.match(named[1]) else _X86_64
    return None


def _bound(title: str, *lists: Iterable[Text]) -> Iterator[_Bound]:
    """The flags of a part that are for a single CPU."""
    for flags in lists:
        for flag in flags:
            if cpu := cpu_of(flag.value):
                yield _Bound(title, flag, cpu)


def _bound_section(section: Kernel) -> list[_Bound]:
    return [*_bound(section.title, section.cxx_flags, section.cuda_flags)]


def sections_for(manifest: Manifest, sections: Sequence[Kernel], cpu: str | None) -> tuple[tuple[Kernel, ...], str]:
    """The sections of the variants for a CPU, and the reason if there are no such variants, else empty.

    A variant omits sections for another CPU only if the backend has a section for its own CPU: then the author
    considered both.

    Args:
        manifest: of the project.
        sections: the sections of a backend.
        cpu: the CPU; None for variants for every CPU.
    """
    if cpu is None:
        return tuple(sections), ""
    of_torch = [*_bound(f"[{manifest.framework.table}]", manifest.framework.cxx_flags)]
    bound = {section.title: _bound_section(section) for section in sections}
    foreign = [
        bound_flag
        for bound_flag in [*of_torch, *(bound_flag for listed in bound.values() for bound_flag in listed)]
        if bound_flag.cpu != cpu
    ]
    kept = tuple(section for section in sections if all(bound_flag.cpu == cpu for bound_flag in bound[section.title]))
    is_replaced = any(bound[section.title] for section in kept)
    if foreign and (foreign[0] in of_torch or not is_replaced):
        first = foreign[0]
        return tuple(sections), f"{first.title} is compiled with `{first.flag.value}`, which is for {first.cpu}"
    return kept, ""


def note_cpus(manifest: Manifest, findings: Findings) -> None:
    """Collect a note for each part that is for a single CPU."""
    found = [*_bound(f"[{manifest.framework.table}]", manifest.framework.cxx_flags)]
    found += [
        bound for family in manifest.built for section in manifest.sections(family) for bound in _bound_section(section)
    ]
    first = {(bound.title, bound.cpu): bound for bound in reversed(found)}
    for bound in first.values():
        findings.note(
            f"{bound.title} is for {bound.cpu} alone, since its flags have `{bound.flag.value}`", bound.flag.span
        )
