"""Which variants of a plan are meant, and what these need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.matrix.backends import BUILT
from py_driver.matrix.select import select

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from py_driver.fetch.entry import Entry
    from py_driver.matrix.lock import Lock
    from py_driver.matrix.matrix import Matrix
    from py_driver.plan.plan import Plan, Variant


def choose(plan: Plan, patterns: Sequence[str]) -> list[Variant]:
    """The variants of a plan that patterns mean; without patterns those that are built by default.

    Raises:
        DriverError: NO_SUCH_VARIANT for a pattern that matches nothing.
    """
    bundled = [v.name for v in plan.variants if v.bundled]
    others = [v.name for v in plan.variants if not v.bundled]
    names = set(select(patterns, bundled, others))
    return [variant for variant in plan.variants if variant.name in names]


def unsplit(chosen: Iterable[Variant], matrix: Matrix) -> tuple[str, ...]:
    """The CUDA releases of variants that are untested: nobody has looked at the phases of their nvcc."""
    asked = {variant.needs.backend for variant in chosen}
    untested = (one for one in matrix.toolkits if one.backend in asked and not one.tested)
    return tuple(one.version for one in untested if BUILT[one.family].in_phases)


def archives(plan: Plan, chosen: Sequence[Variant], lock: Lock) -> list[Entry]:
    """The archives that variants are built from."""
    linked = {name for variant in chosen for name in variant.groups}
    depends = [name for group in plan.groups if group.name in linked for name in group.depends]
    return [*lock.entries_for(variant.needs for variant in chosen), *lock.library_entries(depends)]
