"""plan -> plan: targets whose sources are compiled with a precompiled header of torch's; their objects are the same.

It pays for who compiles sources again and again: to make the header takes longer than to compile one source, and it has
100 MB. It is asked for only where it is likely to fit: rules/private/tools/compile/precompiled.zig looks at each source
anew, and compiles without where it does not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.matrix.facts import facts
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan

_BOUND: Final = frozenset({"pybind", "torch"})
_OF_SETUPTOOLS: Final = frozenset(facts("compilers")["SETUPTOOLS_FLAGS"])
"""Flags that the header is compiled with, and so are those that use it."""

_SAME: Final = re.compile(r"-D\S+|-U\S+|-w|-W(?![alp],)\S*|-O3|-std=c\+\+\d+")
"""Flags with which the header is the same: rules/private/compile.bzl says how it is made, and the compile program
compares the last `-std` with that of torch's release."""

_FIRST: Final = re.compile(
    rb"(?:\s|//[^\n]*\n|/\*.*?\*/|#\s*pragma\s+once\b)*#[ \t]*include[ \t]*[<\"]torch/extension\.h[>\"]", re.DOTALL
)


def with_precompiled(plan: Plan, directory: Path) -> Plan:
    """A plan in which a precompiled header is used where sources include `torch/extension.h` first.

    Args:
        plan: of a project.
        directory: of the project.
    """
    groups = [group._replace(precompiled=_fits(group, plan, directory)) for group in plan.groups]
    return plan._replace(groups=tuple(groups))


def _fits(group: Group, plan: Plan, directory: Path) -> bool:
    if not {*group.depends} >= _BOUND or group.gcc or not _are_same(group.cxx_flags):
        return False
    paths = [plan.path_of(directory, source) for source in group.sources]
    return any(is_file(path) and _FIRST.match(path.read_bytes()) for path in paths)


def _are_same(flags: Sequence[str]) -> bool:
    return {*flags} >= _OF_SETUPTOOLS and all(flag in _OF_SETUPTOOLS or _SAME.fullmatch(flag) for flag in flags)
