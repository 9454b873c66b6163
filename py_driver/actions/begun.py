"""Records of builds in progress, so that the results of an interrupted build are not lost."""

from __future__ import annotations

import glob
import json
import os
import secrets
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.actions.estimate import learned
from py_driver.actions.executed import count_actions, places_of, trace_actions
from py_driver.actions.expected import ExpectedAction
from py_driver.actions.history import read_history, write_history
from py_driver.actions.phases import TorchHeaders
from py_driver.bazel.spawns import read_spawns
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.files import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from py_driver.actions.estimate import History
    from py_driver.bazel.spawns import Spawn

_VERSION = 2
_KIND = ".begun.json"


class Beginning(NamedTuple):
    """A project that a build has begun.

    Attributes:
        module: the name of its Python package.
        package: its Bazel package.
        actions: the expected actions.
    """

    module: str
    package: str
    actions: Sequence[ExpectedAction]


class Log(NamedTuple):
    """Bazel's execution log.

    Attributes:
        path: the path of the log.
        known: the names of the projects whose history already contains the log.
    """

    path: Path
    known: set[str]


@contextmanager
def remembered(projects: Sequence[Beginning], base: Path | None) -> Iterator[Log]:
    """Provide an execution log for a build, whose finished actions are recorded even if it is interrupted.

    If this process is killed, the next build or plan of a project reads the log.

    Args:
        projects: the projects, which no other process builds now.
        base: the output base of Bazel; None if unknown.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    directory = cache_root() / "history"
    log = Log(directory / f"{os.getpid()}-{secrets.token_hex(4)}.log", set())
    with storage_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for project in projects:
            _recover(project.module)
            content = {"version": _VERSION, "log": str(log.path), "base": str(base or ""), **project._asdict()}
            write(directory / f"{project.module}{_KIND}", json.dumps(content).encode())
    try:
        yield log
    finally:
        for project in projects:
            if project.module in log.known:
                (directory / f"{project.module}{_KIND}").unlink(missing_ok=True)
            else:
                _recover(project.module)
        for part in directory.glob(f"{log.path.name}*"):
            part.unlink(missing_ok=True)


def known_history(module: str) -> History:
    """The history of a project, including a running or killed build.

    Args:
        module: the name of its Python package.
    """
    history = read_history(module)
    begun = _read(module)
    return _with(history, begun) if begun else history


def _recover(module: str) -> None:
    """Record the actions of a project's interrupted build, if there is one."""
    begun = _read(module)
    if begun is not None:
        history = read_history(module)
        known = _with(history, begun)
        if known != history:
            write_history(module, known)
        directory = cache_root() / "history"
        (directory / f"{module}{_KIND}").unlink(missing_ok=True)
        others = (_read(path.name.removesuffix(_KIND)) for path in directory.glob(f"*{_KIND}"))
        if not any(other and other["log"] == begun["log"] for other in others):
            for part in directory.glob(f"{glob.escape(Path(begun['log']).name)}*"):
                part.unlink(missing_ok=True)


def _read(module: str) -> dict[str, Any] | None:
    """The record of a build in progress; None if there is none, or the file is invalid."""
    try:
        content = json.loads((cache_root() / "history" / f"{module}{_KIND}").read_text(encoding="utf-8"))
        if content["version"] != _VERSION:
            return None
        actions = [_action(*row) for row in content["actions"]]
        return {
            "log": str(content["log"]),
            "base": str(content["base"]),
            "package": str(content["package"]),
            "actions": actions,
        }
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _action(*row: Any) -> ExpectedAction:  # noqa: ANN401  (JSON)
    """An action from its JSON."""
    variant, section, source, mnemonic, arch, part, reads, headers, templates = row
    return ExpectedAction(
        variant=str(variant),
        section=str(section),
        source=str(source),
        mnemonic=str(mnemonic),
        arch=arch if arch is None else str(arch),
        part=str(part),
        reads=str(reads),
        headers=TorchHeaders(headers),
        templates=bool(templates),
    )


def _stamps(log: Path) -> tuple[tuple[str, int, int], ...]:
    """File status that shows whether a log, or one of its saved parts, has changed."""
    found = []
    for path in sorted(log.parent.glob(f"{glob.escape(log.name)}*")):
        with suppress(FileNotFoundError):
            status = path.stat()
            found.append((path.name, status.st_size, status.st_mtime_ns))
    return tuple(found)


@lru_cache(maxsize=1)
def _spawns(log: str, _stamps: tuple[tuple[str, int, int], ...]) -> Sequence[Spawn]:
    """The processes in a log, which all projects of a build share."""
    return tuple(read_spawns(Path(log)))


def _with(history: History, begun: dict[str, Any]) -> History:
    """The history with the actions of a build that are recorded in its log."""
    actions: list[ExpectedAction] = begun["actions"]
    spawns = _spawns(begun["log"], _stamps(Path(begun["log"])))
    written = {path for spawn in spawns for path in spawn.outputs}
    records = []
    for variant in dict.fromkeys(action.variant for action in actions):
        pattern = f"execroot/*/bazel-out/*/bin/{glob.escape(begun['package'])}/{glob.escape(variant)}.steps.json"
        found = []
        for path in Path(begun["base"]).glob(pattern) if begun["base"] else ():
            with suppress(OSError, ValueError):
                found.append(json.loads(path.read_text(encoding="utf-8")))
        # For other configurations, there may be records of earlier builds.
        if found:
            records.append(max(found, key=lambda record: sum(path in written for path in record["steps"])))
    traced = trace_actions(records, {}, spawns)
    done = [placed for placed in places_of(count_actions(records, traced), traced) if placed[1].path in written]
    sources = {(place.split("|")[0], place.split("|")[1]) for place in history}
    new = learned(history, actions, done, sources | {(action.section, action.source) for action in actions})
    # The load of the machine meanwhile is unknown.
    known = {place: work.seconds for place, work in history.items() if work.seconds}
    return {place: work._replace(seconds=known.get(place, work.seconds)) for place, work in new.items()}
