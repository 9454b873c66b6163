"""The history of builds: a file for each project, beside the cache of results."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_driver.actions.estimate import History, Known
from py_driver.bazel.events import Action
from py_driver.bazel.spawns import Call
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.files import write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.actions.rerun_reasons import Calls

VERSION = 1
"""The version of the file's format; a file of another version is ignored."""

_CALLS = ".calls"
_TOLD = ".told"
_TOLD_ACTIONS = 1000
_TOLD_LENGTH = 100_000
"""The maximum length of an action's output, in characters."""
_BARS = 4  # in `Step.place`


def _path(project: str, kind: str = "") -> Path:
    return cache_root() / "history" / f"{project}{kind}.json"


def _read(path: Path) -> dict[str, Any]:
    """The content of a file; empty if it is invalid."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        actions = content["steps"] if content["version"] == VERSION else {}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    return actions if isinstance(actions, dict) else {}


def _write(path: Path, actions: Mapping[str, Any]) -> None:
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, json.dumps({"version": VERSION, "steps": actions}, separators=(",", ":")).encode())


def read_history(project: str) -> History:
    """The history of a project; empty if there is none, or the file is invalid.

    Args:
        project: the name of its Python package.
    """
    try:
        found = {
            place: Known(reads=tuple(map(str, reads)), key=str(key), seconds=float(seconds))
            for place, (reads, key, seconds) in _read(_path(project)).items()
        }
    except (ValueError, TypeError, OverflowError):
        return {}
    right = all(place.count("|") == _BARS and 0 <= known.seconds < math.inf for place, known in found.items())
    return found if right else {}


def write_history(project: str, history: History) -> None:
    """Write the history of a project.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    _write(_path(project), history)


def read_told(project: str, root: Path | None) -> dict[str, Action]:
    """The output texts of the actions that made the existing outputs, by first output; empty as above.

    Args:
        project: the name of its Python package.
        root: the root of outputs.
    """
    kept = _read(_path(project, _TOLD)).get(str(root), {})
    try:
        return {
            str(output): Action(
                output=str(output),
                label=str(label),
                mnemonic=str(mnemonic),
                succeeded=True,
                exit_code=0,
                command=(),
                text=str(text),
            )
            for output, (label, mnemonic, text) in kept.items()
        }
    except (AttributeError, ValueError, TypeError):
        return {}


def write_told(project: str, root: Path | None, told: Mapping[str, Action]) -> None:
    """Write the last output texts of actions, which Bazel reports only when they run.

    Raises:
        DriverError: see `write_history`.
    """
    path = _path(project, _TOLD)
    before = _read(path)
    last = list(told.values())[-_TOLD_ACTIONS:]
    now = {action.output: (action.label, action.mnemonic, action.text[:_TOLD_LENGTH]) for action in last}
    roots = {name: kept for name, kept in before.items() if Path(name).is_dir()}
    if now or str(root) in roots:
        _write(path, {**roots, str(root): now})


def read_calls(project: str) -> Calls:
    """The calls of actions in the last builds with a report; empty as above.

    Args:
        project: the name of its Python package.
    """
    try:
        return {
            key: Call(command=tuple(command), environment=dict(environment), inputs=dict(inputs))
            for key, (command, environment, inputs) in _read(_path(project, _CALLS)).items()
        }
    except (ValueError, TypeError):
        return {}


def write_calls(project: str, calls: Calls) -> None:
    """Write the calls of actions.

    Raises:
        DriverError: see `write_history`.
    """
    _write(_path(project, _CALLS), {key: (call.command, call.environment, call.inputs) for key, call in calls.items()})
