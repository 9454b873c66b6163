"""The library of an extension module: the suffix of its name, and the order of its objects."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from py_driver.plan.identity import label_order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.plan.groups import Group
    from py_driver.recording.record import Module


def suffix_of(module: Module) -> str:
    """The suffix of the file of a module's library for every Python, as the project names it: `.so`, `.abi3.so`."""
    name = posixpath.basename(module.file)
    last = module.name.rpartition(".")[2]
    return ".so" if name == f"{last}.so" else ".abi3.so"


def link_order(module: Module, groups: Iterable[Group]) -> tuple[str, ...]:
    """The sources of a module in the order of its own link; empty if that is the order of its targets.

    The order decides the order of static initialization, and which of several weak definitions is used.

    Args:
        module: the recorded module.
        groups: its targets, in the order of the link.
    """
    order = tuple(dict.fromkeys(module.sources))
    usual = tuple(source for group in groups for source in sorted(group.sources, key=label_order))
    return () if order == usual else order
