"""The contents of the driver's cache: sizes, unused parts, and parts that a build can restore."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.bazel import bazelisk
from py_driver.bazel.find import OUTPUT_VARIABLE
from py_driver.bazel.sandbox import settings_place
from py_driver.debian import provide as debian
from py_driver.errors import Code, error
from py_driver.fetch.store import unpinned
from py_driver.system.cache import HEADERS, INLINE, SOURCES, UNPACKED, storage_errors
from py_driver.system.scratch import is_leftover, remove
from py_driver.system.turns import nobody
from py_driver.system.venv import unused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from py_driver.matrix.lock import Lock

UNUSED_DAYS: Final = 30
"""The age in days at which an unused Python environment counts as spare."""

_STOP_SECONDS: Final = 30.0
_AGAIN: Final = "run this again after it"
_BLOCK: Final = 512
_DAY: Final = 86400
_RECORDING: Final = re.compile("[0-9a-f]{16}|[0-9a-f]{24}")
"""The names of directories in `_RECORDED`."""

_PLACE: Final = "DO_NOT_BUILD_HERE"
"""The file in an output base in which Bazel writes the workspace."""

_SECOND: Final = re.compile("[0-9a-f]{12}-[0-9]+")
"""The name of an output base for concurrent builds, if the user wants Bazel's outputs elsewhere."""

_RULES: Final = re.compile(r'^module\(name = "kernel_projects"\)\n(?:.*\n)*?    path = "(.*)",$', re.MULTILINE)
"""The driver's text in the module of a workspace; any other workspace is not the driver's."""

_MADE: Final = re.compile("[0-9a-f]{12}|[0-9][0-9.]*-[0-9a-f]{12}|bazelisk-[0-9][0-9.]*")
"""The names of directories with a setting of the sandbox, or with a Bazel."""

_TREE: Final = re.compile("[0-9a-f]{24}")
"""The name of a directory with headers."""

_MODULE: Final = re.compile(r"[^\W\d]\w*-[0-9a-f]{24}", re.ASCII)
"""The name of a directory with a module of `cpp_extension`."""

_DIGEST: Final = re.compile("[0-9a-f]{64}")
"""The name of an unpacked source archive."""

_RECORDED: Final = ("recordings", "build-requirements")
"""Directories of recorded builds, and of the packages that they needed."""

_SCRATCH: Final = ("bazel", "names", "verify", "sandbox", *_RECORDED, f"{SOURCES}/{UNPACKED}", HEADERS)
"""Directories of the cache with scratch directories of runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of the cache.

    Attributes:
        name: one word, as `driver cache info` shows it.
        what: a short description.
        size: bytes on disk.
        spare: paths that nothing needs any more, as far as this driver knows.
        made: paths that a build can restore without the network after `spare` was removed.
    """

    name: str
    what: str
    size: int
    spare: tuple[Path, ...]
    made: tuple[Path, ...]


def contents(root: Path, lock: Lock) -> list[Part]:
    """The parts of a cache.

    Args:
        root: the directory of the cache, which may not exist.
        lock: the archives that are pinned now, with those of the user's matrix.
    """
    workspaces, left = _workspaces(root)
    bases = {base: workspace for base in _bases(root) if (workspace := _workspace_of(base)) is not None}
    ours = [base for base, workspace in bases.items() if workspace in workspaces]
    lost = [base for base, workspace in bases.items() if workspace in left or not workspace.is_dir()]
    links = [link for link in _links(root) if not link.exists() or link.resolve() in lost]
    sandbox = root / "sandbox"
    settings = _others(sandbox, settings_place(root)) if sandbox.is_dir() else []
    results = [root / "actions"] if (root / "actions" / "cas").is_dir() else []
    runs = [path for name in _SCRATCH for path in _children(root / name) if is_leftover(path)]
    store = unpinned(root, {key for entry in lock.entries for key in (entry.key, entry.sha256)})
    unpacked = _called(root / SOURCES / UNPACKED, _DIGEST)
    bazels = [debian.place_of(root), bazelisk.place_of(root)]
    named = [
        "store",
        SOURCES,
        HEADERS,
        INLINE,
        "actions",
        "workspaces",
        "bazel",
        "venvs",
        "tools",
        "served",
        *_RECORDED,
    ]
    recorded = [root / name for name in _RECORDED]
    outputs = f"unpacked and built files of Bazel{_elsewhere(root, bases)}"
    rest = [path for path in _children(root) if path.name not in {*named, "servers"}]
    return [
        _part("archives", "pinned archives of toolchains", [root / "store"], spare=store),
        _part("sources", "source archives of the package index", [root / SOURCES], made=unpacked),
        _part("headers", "headers of toolchains for editors", [root / HEADERS], made=_called(root / HEADERS, _TREE)),
        _part("inline", "modules of cpp_extension", [root / INLINE], made=_called(root / INLINE, _MODULE)),
        _part("results", "results of actions", results, made=results),
        _part("output", outputs, [*ours, *lost], spare=[*lost, *links], made=ours),
        _part("workspaces", "Bazel's view of projects", [root / "workspaces"], spare=left, made=workspaces),
        _part("bazel", "Bazel", [root / "bazel"], spare=_others(root / "bazel", *bazels)),
        _part("python", "Python environments", [root / "venvs"], spare=unused(root / "venvs", UNUSED_DAYS)),
        _part("recordings", "recorded builds of setup.py files", recorded, spare=_unrecorded(root)),
        _part("tools", "programs for servers and checks", [root / "tools"]),
        _part("served", "results kept by `driver cache serve`", [root / "served"]),
        _part("rest", "history, settings of the sandbox, turns", rest, spare=[*settings, *runs]),
    ]


def _elsewhere(root: Path, bases: Iterable[Path]) -> str:
    """The directories with output bases outside of the cache, for people: Bazel's default is in the home directory."""
    outside = dict.fromkeys(str(base.parent) for base in bases if not base.is_relative_to(root.resolve()))
    return f", also in {', '.join(outside)}" if outside else ""


def _called(directory: Path, names: re.Pattern[str]) -> list[Path]:
    """The entries of a directory with the driver's names, which the driver can restore."""
    return [path for path in _children(directory) if names.fullmatch(path.name)]


def _unrecorded(root: Path) -> list[Path]:
    """The recorded builds that no command has used recently."""
    oldest = time.time() - UNUSED_DAYS * _DAY
    markers = {path: path / "record.json" for path in _children(root / _RECORDED[0])}
    markers |= {path: path.with_name(f"{path.name}.lock") for path in _children(root / _RECORDED[1])}
    return [
        path
        for path, marker in markers.items()
        if path.is_dir() and _RECORDING.fullmatch(path.name) and _changed(marker) < oldest
    ]


def _changed(path: Path) -> float:
    """The time of a file's last change; now if it does not exist."""
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def free(root: Path, paths: Sequence[Path]) -> int:
    """Remove parts of a cache while no build runs; new builds wait.

    Args:
        root: the directory of the cache.
        paths: the paths to remove, from `spare` or `made` of parts.

    Returns:
        The number of freed bytes.

    Raises:
        DriverError: CACHE_BUSY if a build runs or a server of Bazel does not end; PERMISSION if a path cannot be
            removed.
    """
    if not paths:
        return 0
    with storage_errors(root), nobody(root / "turns" / "builds") as free_now:
        if not free_now:
            raise error(Code.CACHE_BUSY, "a running build needs the contents of the cache", help=_AGAIN)
        before = size_of(paths)
        for path in paths:
            if (path / _PLACE).is_file():
                _stop(path)
            remove(path)
            if path.exists():
                raise PermissionError(1, "Operation not permitted", str(path))
        return before


def size_of(paths: Iterable[Path]) -> int:
    """The disk usage of files and directories in bytes; a file with several names counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    waiting = [str(path) for path in paths]
    while waiting:
        path = waiting.pop()
        with suppress(OSError):  # it may be removed meanwhile
            found = os.lstat(path)
            if (found.st_dev, found.st_ino) in seen:
                continue
            seen.add((found.st_dev, found.st_ino))
            total += found.st_blocks * _BLOCK
            if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114  (a hundred thousand of them)
                waiting += [entry.path for entry in os.scandir(path)]
    return total


def _part(
    name: str, what: str, places: Iterable[Path], *, spare: Iterable[Path] = (), made: Iterable[Path] = ()
) -> Part:
    existing = tuple(path for path in made if path.exists())
    return Part(name=name, what=what, size=size_of(places), spare=tuple(spare), made=existing)


def _children(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _others(directory: Path, *current: Path) -> list[Path]:
    """The driver's directories in a directory except the current ones."""
    found = [path for path in _children(directory) if _MADE.fullmatch(path.name) and path not in current]
    return [path for path in found if path.is_dir() and not path.is_symlink()]


def _workspaces(root: Path) -> tuple[list[Path], list[Path]]:
    """The workspaces whose rules exist, and those whose rules are gone."""
    here: list[Path] = []
    left: list[Path] = []
    for workspace in _children(root / "workspaces"):
        module = workspace / "MODULE.bazel"
        text = module.read_text(encoding="utf-8", errors="replace") if module.is_file() else ""
        if rules := _RULES.search(text):
            (here if Path(rules[1]).is_dir() else left).append(workspace)
    return here, left


def _links(root: Path) -> list[Path]:
    """The links of `servers.py` to the output base of each workspace's first server."""
    return [path for path in _children(root / "servers") if path.is_symlink()]


def _bases(root: Path) -> Iterator[Path]:
    """The output bases of Bazel's servers that builds have used."""
    for path in _children(root / "servers"):
        if path.is_dir():
            yield path.resolve()
    if elsewhere := os.environ.get(OUTPUT_VARIABLE):
        yield from (path for path in _children(Path(elsewhere)) if _SECOND.fullmatch(path.name))


def _workspace_of(base: Path) -> Path | None:
    """The workspace of an output base; None for any other directory, so that nothing else is ever removed."""
    try:
        return Path((base / _PLACE).read_text(encoding="utf-8", errors="surrogateescape").strip())
    except OSError:
        return None


def _stop(base: Path) -> None:
    """End the idle server of an output base.

    Raises:
        DriverError: CACHE_BUSY if it is busy, or does not end.
    """
    with (base / "lock").open("ab") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # Bazel's own lock, of each command
        except OSError:
            raise error(Code.CACHE_BUSY, f"a command of Bazel runs in {base}", help=_AGAIN) from None
        number = _server(base)
        end = time.monotonic() + _STOP_SECONDS
        if number is not None:
            os.kill(number, signal.SIGTERM)
        while number is not None and _server(base) == number:
            if time.monotonic() > end:
                raise error(Code.CACHE_BUSY, f"Bazel's server {number} does not end", help=f"end it: `kill {number}`")
            time.sleep(0.1)


def _server(base: Path) -> int | None:
    """The process id of an output base's server, if it runs."""
    try:
        number = int((base / "server" / "server.pid.txt").read_text(encoding="ascii"))
        command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return number if f"--output_base={base}".encode() in command else None
