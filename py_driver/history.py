"""Where the driver keeps what its builds did: a file for each project, beside the cache of results."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import tomli

from py_driver.fetch.store import cache_root, storage_errors
from py_driver.files import write
from py_driver.forecast import Cost, History, Known

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
"""Of the shape of the file; one of another version is as good as none."""


def _path(project: str) -> Path:
    return cache_root() / "history" / f"{project}.json"


def read_history(project: str) -> History:
    """What earlier builds of a project did; nothing if nobody knows, or the file is not one of ours.

    Args:
        project: name of its Python package.
    """
    try:
        content = json.loads(_path(project).read_text(encoding="utf-8"))
        if content["version"] != VERSION:
            return {}
        return {
            place: Known(reads=tuple(map(str, reads)), key=str(key), seconds=float(seconds))
            for place, (reads, key, seconds) in content["steps"].items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def write_history(project: str, history: History) -> None:
    """Keep what builds of a project did.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    path = _path(project)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, json.dumps({"version": VERSION, "steps": history}, separators=(",", ":")).encode())


@cache
def read_costs() -> Mapping[str, tuple[Cost, Cost]]:
    """What steps of each kind are taken for before one was measured, without and with torch's headers in sight."""
    text = (Path(__file__).parent / "resources" / "steps.toml").read_text(encoding="utf-8")
    found = {}
    for mnemonic, one in tomli.loads(text).items():
        plain, torch = (Cost(memory=m, seconds=s) for m, s in zip(one["memory"], one["seconds"], strict=True))
        found[mnemonic] = (plain, torch)
    return found
