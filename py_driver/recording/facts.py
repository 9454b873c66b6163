"""Facts about projects and programs for recordings: recording.toml."""

from __future__ import annotations

from functools import cache
from typing import Any

import tomli

from py_driver.resources import resource


@cache
def facts() -> dict[str, Any]:
    """The tables of recording.toml."""
    return tomli.loads(resource("recording.toml"))
