"""Builds again whenever a file of a project changes, and lets a command have each build."""

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

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Sequence

    from py_driver.authoring.dev_build import DevBuild
    from py_driver.output import Output

_FOLLOWERS: Final = "followers"
"""As `rules_torch_kernels.live` names it."""

_STEP_MS: Final = 30
"""How long nothing may change until a change counts as whole: editors write a file in several steps."""

_LOOK_MS: Final = 100
"""How often to see whether the command has ended; the first build begins after the first look."""

_SUFFIXES: Final = frozenset({*SOURCES, *HEADERS, ".cfg", ".ini", ".py", ".toml", ".yaml", ".yml"})
"""Of files that make a difference, besides all that is shipped. A command may write others beside them, such as
results, and shall not be started again for that."""

_SHIPPED: Final = ("torch-ext", "tvm-ffi-ext")
"""Directories of what is shipped as it is."""

_NO_SOURCES: Final = frozenset({BUILD, DEV, SLICES, ".git", ".venv", "node_modules"})
"""Directories of a project without sources."""


def watch(
    directory: Path,
    build: Callable[[DevBuild | None], DevBuild],
    start: Callable[[DevBuild], subprocess.Popen[bytes]] | None,
    output: Output,
) -> None:
    """Build now and after each change, until Ctrl-C; a build that fails says why, and leaves the last one.

    Args:
        directory: of the project.
        build: builds it, given the build just before; None if there was none, or it failed.
        start: starts the command; it is started again for each change, unless it follows by itself
            (`rules_torch_kernels.live`). None if there is none.
        output: where progress and errors are shown.

    Raises:
        DriverError: INTERRUPTED, and what keeps the command from being started.
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
    """Whether a source has changed: yes at first, and then each time one has, and no every now and then.

    The system tells of files in directories that it watches. Of a directory that is moved, copied or made it tells the
    name, but not what was in it before it was watched: so after each change the sources are looked at too, and once
    more when it is quiet again.
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
            # As long as it is open, no other directory gets its number.
            opened.callback(os.close, descriptor)
            known, is_quiet = _sources(root, is_lasting), False
            # The watch begins before a build, so that no edit meanwhile is missed.
            for changes in watchfiles.watch(
                root, watch_filter=accept, step=_STEP_MS, rust_timeout=_LOOK_MS, yield_on_timeout=True
            ):
                if changes or not is_quiet:
                    before, known = known, _sources(root, is_lasting)
                    edited = any(_is_source(Path(path).relative_to(root).parts) for _, path in changes)
                    changed = changed or edited or known != before
                    is_quiet = not changes
                yield changed
                changed = False
                if not _is_at(descriptor, root):
                    break
        # It was removed, and perhaps made again, as by another checkout: of that the watch sees nothing.
        changed = True


def _sources(root: Path, is_lasting: Callable[[str], bool]) -> dict[str, tuple[int, ...]]:
    """The sources of a project, and links to directories, each with what the system says of its content."""
    found: dict[str, tuple[int, ...]] = {}
    for directory, directories, files in os.walk(root):
        inner = Path(directory).relative_to(root).parts
        directories[:] = [name for name in directories if _may_have_sources((*inner, name))]
        links = [name for name in directories if Path(directory, name).is_symlink()]
        own = [name for name in files if _is_source((*inner, name))]
        for path in (Path(directory, name) for name in (*links, *own)):
            if is_lasting(str(path)):
                with suppress(OSError):  # an editor's
                    about = path.lstat()
                    found[str(path)] = (about.st_ino, about.st_size, about.st_mtime_ns)
    return found


def _is_at(descriptor: int, root: Path) -> bool:
    """Whether a path leads to a directory that is open."""
    try:
        return os.path.samestat(os.fstat(descriptor), root.stat())
    except OSError:
        return False


def _is_source(parts: Sequence[str]) -> bool:
    """Whether a file has a part in a build or in a program of the author's; what programs write has none.

    Args:
        parts: of its path, relative to the project.
    """
    return _may_have_sources(parts) and (Path(parts[-1]).suffix in _SUFFIXES or parts[0] in _SHIPPED)


def _may_have_sources(parts: Sequence[str]) -> bool:
    """Whether a directory may have sources in it; the parts are as above."""
    return bool(parts) and parts[0] not in _NO_SOURCES and "__pycache__" not in parts


def _built(build: Callable[[DevBuild | None], DevBuild], last: DevBuild | None, output: Output) -> DevBuild | None:
    """What was built; None if it could not be, which is said."""
    try:
        return build(last)
    except DriverError as failure:
        if failure.diagnostics[0].code is Code.INTERRUPTED:
            raise
        output.fail(failure)
        return None


class _Command:
    """A command that is to have the newest build."""

    def __init__(
        self, followers: Path, start: Callable[[DevBuild], subprocess.Popen[bytes]] | None, output: Output
    ) -> None:
        self._followers = followers
        self._start = start
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False

    def take(self, build: DevBuild | None) -> None:
        """Let the command have a build, if there is one: start it, unless it follows by itself."""
        if build is None or self._start is None:
            return
        if self._process is not None:
            if self._process.poll() is None and self._follows(self._process):
                return
            stop(self._process)
        self._process, self._is_over = self._start(build), False

    def look(self) -> None:
        """Say it if the command has ended."""
        if self._process is None or self._is_over or (code := self._process.poll()) is None:
            return
        self._output.say(f"the command ended with exit code {exit_code(code)}; it starts again when a source changes")
        self._is_over = True

    def end(self) -> None:
        """End the command."""
        if self._process is not None:
            stop(self._process)

    def _follows(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether the command, or what it started, takes new builds by itself; others that follow do not count."""
        files = self._followers.iterdir() if self._followers.is_dir() else ()
        return any(_group_of(file.name) == process.pid for file in files)


def _group_of(pid: str) -> int | None:
    """The process group of a process; None if there is none."""
    try:
        return os.getpgid(int(pid))
    except (ValueError, OSError):
        return None
