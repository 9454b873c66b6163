"""What kernel sections may depend on besides torch, as far as it is locked: releases of CUTLASS."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from py_driver.layout import module_root

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.fetch.entry import Entry


@cache
def _lock() -> dict[str, Any]:
    path = module_root() / "toolchains" / "lock" / "cutlass.json"
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def locked() -> tuple[str, ...]:
    """The values of `depends` that have an archive, e.g. `cutlass_3_6`.

    Raises:
        DriverError: SET_UP if the installation is broken.
    """
    return tuple(_lock())


def library_entries(depends: Iterable[str]) -> list[Entry]:
    """The archives of some values of `depends`, in a fixed order, each once; torch has none here."""
    from py_driver.fetch.entry import parse_entry  # noqa: PLC0415  (slow to load, and `check` needs only names)

    return [parse_entry(_lock()[name]["archive"]) for name in sorted(set(depends) & set(_lock()))]
