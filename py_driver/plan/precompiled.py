"""plan -> plan: targets that use a precompiled header of torch; their objects are the same.

It pays if sources are compiled repeatedly: making the header takes longer than compiling a source, and it has 100 MB.
It is requested only where it is likely to fit: rules/private/tools/compile/precompiled.zig checks each source again,
and compiles without the header if it does not fit.
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
"""Flags of the header, which its users must have too."""

_SAME: Final = re.compile(r"-D\S+|-U\S+|-w|-W(?![alp],)\S*|-O3|-std=c\+\+\d+")
"""Flags that do not change the header: rules/private/compile.bzl has its command, and the compile program compares the
last `-std` with that of torch's release."""

_FIRST: Final = re.compile(
    rb"(?:\s|//[^\n]*\n|/\*.*?\*/|#\s*pragma\s+once\b)*#[ \t]*include[ \t]*[<\"]torch/extension\.h[>\"]", re.DOTALL
)


def with_precompiled(plan: Plan, directory: Path) -> Plan:
    """A plan that uses a precompiled header for sources that include `torch/extension.h` first.

    Args:
        plan: the plan of a project.
        directory: the project's directory.
    """
    groups = [group._replace(precompiled=_fits(group, plan, directory)) for group in plan.groups]
    return plan._replace(groups=tuple(groups))


def _fits(group: Group, plan: Plan, directory: Path) -> bool:
    if not {*group.depends} >= _BOUND or group.gcc or not _are_same(group.cxx_flags):
        return False
    paths = [plan.path_of(directory, source) for source in group.sources]
    return any(is_file(path) and _FIRST.match(path.read_bytes()) for path in paths)


def _are_same(flags: Sequence[str]) -> bool:
    # The rules' own standard has the extensions of GNU, and the header has not.
    if not any(flag.startswith("-std=") for flag in flags):
        return False
    return {*flags} >= _OF_SETUPTOOLS and all(flag in _OF_SETUPTOOLS or _SAME.fullmatch(flag) for flag in flags)
