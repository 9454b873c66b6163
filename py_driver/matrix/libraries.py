"""What kernel sections may depend on besides torch, as far as it is locked: releases of CUTLASS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.fetch.entry import Entry


def _lock() -> dict[str, Any]:
    from py_driver.matrix.lock import read_part  # noqa: PLC0415

    return {f"cutlass_{version.replace('.', '_')}": entry for version, entry in read_part("cutlass").items()}


def locked() -> tuple[str, ...]:
    """The values of `depends` that have an archive, e.g. `cutlass_3_6`.

    Raises:
        DriverError: see `read_part`.
    """
    return tuple(_lock())


def library_entries(depends: Iterable[str]) -> list[Entry]:
    """The archives of some values of `depends`, in a fixed order, each once; torch has none here."""
    from py_driver.fetch.entry import parse_entry  # noqa: PLC0415  (slow to load, and `check` needs only names)

    return [parse_entry(_lock()[name]["archive"]) for name in sorted(set(depends) & set(_lock()))]
