"""Builds again whenever a file of a project changes, and passes each build to a command."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.authoring.session import exit_code, stop
from py_driver.building.variant_dir import BUILD, DEV, SLICES
from py_driver.errors import Code, DriverError
from py_driver.manifest.paths import HEADERS, SOURCES
from py_driver.system.files import looking_twice
from py_driver.system.processes import stat_fields

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Sequence

    import watchfiles

    from py_driver.authoring.dev_build import DevBuild
    from py_driver.output import Output

_FOLLOWERS: Final = "followers"
"""Its name in `rules_torch_kernels.live`, which writes a file for each process there."""

_GROUP: Final = 2
_START: Final = 19
"""The places of a process group and of the time of its start in `stat_fields`."""

_STEP_MS: Final = 30
"""The quiet time after which a change counts as complete: editors write a file in several steps."""

_LOOK_MS: Final = 100
"""The interval of checks whether the command has ended; the first build begins after the first check."""

_POLL_SECONDS: Final = 1.0
"""The interval of listing all sources if the system does not report changes."""

_SUFFIXES: Final = frozenset({*SOURCES, *HEADERS, ".cfg", ".ini", ".py", ".toml", ".yaml", ".yml"})
"""Suffixes of relevant files, besides all shipped files. A command may write other files beside them, such as results,
which must not restart it."""

_SHIPPED: Final = ("torch-ext", "tvm-ffi-ext")
"""Directories of files that are shipped unchanged."""

_NO_SOURCES: Final = frozenset({BUILD, DEV, SLICES, ".git", ".venv", "node_modules"})
"""Directories of a project without sources."""


def watch(
    directory: Path,
    build: Callable[[DevBuild | None], DevBuild],
    start: Callable[[DevBuild], subprocess.Popen[bytes]] | None,
    output: Output,
) -> None:
    """Build now and after each change, until Ctrl-C; a failed build reports its error and keeps the last build.

    Args:
        directory: the project's directory.
        build: builds the project; its argument is the previous build, or None if there is none or it failed.
        start: starts the command, again for each change unless the command follows builds by itself
            (`rules_torch_kernels.live`); None without a command.
        output: shows progress and errors.

    Raises:
        DriverError: INTERRUPTED, and the errors of starting the command.
    """
    running = _Command(directory / DEV / _FOLLOWERS, start, output)
    latest: DevBuild | None = None
    try:
        for changed in _changes(directory):
            if changed:
                latest = _built(build, latest, output)
                running.take(latest)
            else:
                running.look()
    finally:
        running.end()


def _changes(directory: Path) -> Iterator[bool]:
    """Whether a source has changed: True at first and after each change, and False periodically.

    The system reports files in watched directories. For a directory that is moved, copied or created it reports the
    name, but not the files that were in it before it was watched: so after each change the sources are also listed, and
    once more when it is quiet again. It reports nothing about the targets of links outside of the project, so these are
    looked at periodically.
    """
    import watchfiles  # noqa: PLC0415  (slow to load, and only this needs it)

    root, lasting = directory.absolute(), watchfiles.DefaultFilter(ignore_dirs=())
    changed = True

    def is_lasting(path: str) -> bool:
        return lasting(watchfiles.Change.modified, path)

    def accept(_: watchfiles.Change, path: str) -> bool:
        parts = Path(path).relative_to(root).parts
        is_other_file = not _is_source(parts) and Path(path).is_file()
        return is_lasting(path) and _may_have_sources(parts) and not is_other_file

    while True:
        with ExitStack() as opened, suppress(FileNotFoundError):
            try:
                descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                yield False
                time.sleep(_LOOK_MS / 1000)
                continue
            # As long as it is open, no other directory gets its inode number.
            opened.callback(os.close, descriptor)
            known, is_quiet = _sources(root, is_lasting), False
            # The watch begins before a build, so that no edit during it is missed.
            for changes in _reported(root, accept):
                links = [path for path in known if Path(path).is_symlink()] if is_quiet else []
                if changes or not is_quiet or any(_status(Path(path)) != known[path] for path in links):
                    before, known = known, _sources(root, is_lasting)
                    edited = any(_is_source(Path(path).relative_to(root).parts) for _, path in changes or ())
                    changed = changed or edited or known != before
                    is_quiet = changes is not None and not changes
                yield changed
                changed = False
                if not _is_at(descriptor, root):
                    break
        # It was removed, and perhaps created again, e.g. by a checkout, which the watch does not notice.
        changed = True


def _reported(
    root: Path, accept: Callable[[watchfiles.Change, str], bool]
) -> Iterator[set[tuple[watchfiles.Change, str]] | None]:
    """The changes that the system reports, periodically; None for unknown ones.

    A user's watches are limited in number (fs.inotify.max_user_watches), and editors use many.
    """
    import watchfiles  # noqa: PLC0415  (as above)
    from watchfiles._rust_notify import WatchfilesRustInternalError  # noqa: PLC0415  (it has no public name)

    try:
        yield from watchfiles.watch(
            root,
            watch_filter=accept,
            step=_STEP_MS,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
    except FileNotFoundError:
        raise
    except (OSError, WatchfilesRustInternalError):
        while True:
            yield None
            time.sleep(_POLL_SECONDS)


def _sources(root: Path, is_lasting: Callable[[str], bool]) -> dict[str, tuple[int, ...]]:
    """The sources of a project, and links to directories, each with its status."""
    found: dict[str, tuple[int, ...]] = {}
    for directory, directories, files in os.walk(root):
        inner = Path(directory).relative_to(root).parts
        directories[:] = [name for name in directories if _may_have_sources((*inner, name))]
        links = [name for name in directories if Path(directory, name).is_symlink()]
        own = [name for name in files if _is_source((*inner, name))]
        for path in (Path(directory, name) for name in (*links, *own)):
            if is_lasting(str(path)) and (status := _status(path)):
                found[str(path)] = status
    return found


def _status(path: Path) -> tuple[int, ...]:
    """The file status of a file's content, or of a link to a directory; empty if it has just been removed."""
    try:
        about = path.stat() if path.is_file() else path.lstat()
    except OSError:  # a temporary file of an editor
        return ()
    return (about.st_ino, about.st_size, about.st_mtime_ns)


def _is_at(descriptor: int, root: Path) -> bool:
    """Whether a path leads to an open directory."""
    try:
        return os.path.samestat(os.fstat(descriptor), root.stat())
    except OSError:
        return False


def _is_source(parts: Sequence[str]) -> bool:
    """Whether a file is part of a build or of an author's program, not a program's output.

    Args:
        parts: the parts of its path, relative to the project.
    """
    return _may_have_sources(parts) and (Path(parts[-1]).suffix in _SUFFIXES or parts[0] in _SHIPPED)


def _may_have_sources(parts: Sequence[str]) -> bool:
    """Whether a directory may contain sources; the parts are as above."""
    return bool(parts) and parts[0] not in _NO_SOURCES and "__pycache__" not in parts


def _built(build: Callable[[DevBuild | None], DevBuild], last: DevBuild | None, output: Output) -> DevBuild | None:
    """The new build; None if it failed, which is reported."""
    try:
        with looking_twice():
            return build(last)
    except DriverError as failure:
        if failure.diagnostics[0].code is Code.INTERRUPTED:
            raise
        output.fail(failure)
        return None


class _Command:
    """A command that uses the newest build."""

    def __init__(
        self, followers: Path, start: Callable[[DevBuild], subprocess.Popen[bytes]] | None, output: Output
    ) -> None:
        self._followers = followers
        self._start = start
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False

    def take(self, build: DevBuild | None) -> None:
        """Pass a build to the command, if there is one: start it, unless it follows builds by itself."""
        if build is None or self._start is None:
            return
        if self._process is not None:
            if self._process.poll() is None and self._follows(self._process):
                return
            stop(self._process)
        self._process, self._is_over = self._start(build), False

    def look(self) -> None:
        """Report if the command has ended."""
        if self._process is None or self._is_over or (code := self._process.poll()) is None:
            return
        self._output.say(f"the command ended with exit code {exit_code(code)}; it starts again when a source changes")
        self._is_over = True

    def end(self) -> None:
        """End the command."""
        if self._process is not None:
            stop(self._process)

    def _follows(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether the command, or one of its children, loads new builds by itself; other processes do not count."""
        files = self._followers.iterdir() if self._followers.is_dir() else ()
        return any(_group_of(file) == process.pid for file in files)


def _group_of(file: Path) -> int | None:
    """The process group of a follower; None if it has ended, even if another process has its number now.

    Args:
        file: its file, as `rules_torch_kernels.live` writes it.
    """
    try:
        fields = stat_fields(Path("/proc", file.name))
        return int(fields[_GROUP]) if file.read_text(encoding="ascii") == fields[_START] else None
    except (ValueError, OSError):
        return None
