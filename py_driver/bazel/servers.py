"""Bazel's servers: each runs one build at a time, so there are several, and a build without a free server waits."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.bazel.find import OUTPUT_VARIABLE, Bazel
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.files import path_digest
from py_driver.system.memory import builds_at_once
from py_driver.system.turns import turn, whom

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from py_driver.output import Output
    from py_driver.system.turns import Ticket, Turn

_IDLE_SECONDS: Final = 300
"""How long a server for simultaneous builds is kept; it takes half a gigabyte."""

_COPY: Final = ".copy"
"""The separator between the name of a workspace and the number of its copy."""

_TOOLCHAINS: Final = "@*torch_kernels_*.marker"
"""The marker that Bazel writes beside a complete repository."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A server that is reserved for a build.

    Attributes:
        bazel: the Bazel that uses it.
        running: the number of builds at the start of this one, including itself.
        base: its output base; None for the first server, for which Bazel chooses it.
        first: a link to the first server's output base, once it is known.
    """

    bazel: Bazel
    running: int
    base: Path | None
    first: Path

    @property
    def name(self) -> str:
        """Its name, which also identifies it in later builds."""
        return str(self.base or self.first)

    def built_in(self, exec_root: Path | None) -> None:
        """Record the output base of the first server, whose toolchains the others share.

        Args:
            exec_root: the execution root of this server's build, if any.
        """
        if exec_root is None or self.base is not None:
            return
        with storage_errors(self.first):
            self.first.parent.mkdir(parents=True, exist_ok=True)
            base = exec_root.parent.parent
            if not self.first.is_symlink() or self.first.readlink() != base:
                self.first.unlink(missing_ok=True)
                self.first.symlink_to(base)


@contextmanager
def build_turn(output: Output) -> Iterator[Turn]:
    """Wait until fewer than the maximum number of builds run, in the order of arrival.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    places = builds_at_once()

    def waiting(before: Sequence[Ticket]) -> None:
        output.say(
            f"At most {places} {'build runs' if places == 1 else 'builds run'} at once here, and this one is "
            f"number {len(before) + 1}; waiting for {whom(before, time.time())}."
        )

    with turn(cache_root() / "turns" / "builds", waiting, places=places) as mine:
        yield mine


def copy_of(workspace: Path, number: int) -> Path:
    """A copy of a workspace in the cache, for simultaneous builds of projects with the same place; 0 is the first."""
    return workspace.with_name(f"{workspace.name}{_COPY}{number}") if number else workspace


def _original(root: Path) -> Path:
    """The original workspace of a copy."""
    return root.with_name(root.name.partition(_COPY)[0]) if root.parent == cache_root() / "workspaces" else root


@contextmanager
def free_server(bazel: Bazel, root: Path, output: Output) -> Iterator[Server]:
    """A server of a workspace that no other build uses within this context.

    The first server is Bazel's default for the workspace, and is kept as long as Bazel keeps it. The others are for
    simultaneous builds, or for a copy of a workspace; they share the toolchains of the first through hard links.

    Args:
        bazel: the Bazel.
        root: the root of the workspace.
        output: reports waiting.

    Raises:
        DriverError: NO_SPACE or PERMISSION if the cache cannot be written.
    """
    servers, name, original = cache_root() / "servers", path_digest(root), _original(root)
    first, base = servers / path_digest(original), None
    with build_turn(output) as mine:
        if mine.place or root != original:
            base = Path(os.environ.get(OUTPUT_VARIABLE) or servers).absolute() / f"{name}-{mine.place}"
            with storage_errors(base):
                (base / "external").mkdir(parents=True, exist_ok=True)
                _share(first / "external", base / "external")
            startup = (*bazel.startup, f"--output_base={base}", f"--max_idle_secs={_IDLE_SECONDS}")
            bazel = replace(bazel, startup=startup)
        yield Server(bazel=bazel, running=mine.running, base=base, first=first)


def _share(theirs: Path, ours: Path) -> None:
    """Link toolchains of an output base into another with none or older ones; Bazel makes those that cannot be linked.

    Bazel removes a marker before it makes a repository again, and makes every repository without a marker: a repository
    with the same marker before and after is complete, and an interrupted process leaves no valid marker.
    """
    for marker in theirs.glob(_TOOLCHAINS):
        with suppress(OSError):
            own, latest = ours / marker.name, marker.stat()
            if own.exists() and own.stat().st_mtime_ns >= latest.st_mtime_ns:
                continue
            name, content = marker.name[1:].removesuffix(".marker"), marker.read_bytes()
            own.unlink(missing_ok=True)
            if (ours / name).exists():
                shutil.rmtree(ours / name)
            shutil.copytree(theirs / name, ours / name, symlinks=True, copy_function=os.link)
            if marker.stat().st_mtime_ns == latest.st_mtime_ns:
                own.write_bytes(content)
