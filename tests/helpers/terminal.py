"""A terminal: the output of a program as a user sees it."""

from __future__ import annotations

import os
import select
import subprocess
import termios
import time
from typing import IO, TYPE_CHECKING, Self

import pyte

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

_QUIET = 0.05


class Terminal:
    """A terminal with a size, and all screens that it has shown."""

    def __init__(self, columns: int = 80, lines: int = 24) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=1000)
        self._stream = pyte.ByteStream(self.screen)
        self.master, self.slave = os.openpty()
        self.frames: list[list[str]] = []
        self.raw = b""
        self._streams: list[IO[str]] = []
        self.resize(columns, lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in self._streams:
            stream.close()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, columns: int, lines: int) -> None:
        termios.tcsetwinsize(self.slave, (lines, columns))
        self.screen.resize(lines, columns)

    def open(self) -> IO[str]:
        """A stream that writes to it."""
        self._streams.append(os.fdopen(os.dup(self.slave), "w", encoding="utf-8"))
        return self._streams[-1]

    def start(self, command: list[str], cwd: Path, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a program in the foreground of it: Ctrl-C reaches it."""
        return subprocess.Popen(
            ["setsid", "--ctty", *command],
            cwd=cwd,
            env={**environ, "TERM": "xterm"},
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
        )

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def read(self, seconds: float = _QUIET) -> bool:
        """Read output for some seconds; returns whether there was any."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        content = os.read(self.master, 65536)
        self.raw += content
        self._stream.feed(content)
        self.frames.append(self.shown())
        return True

    def read_until(self, ended: Callable[[], bool], seconds: float) -> None:
        """Read output until a condition holds."""
        deadline = time.monotonic() + seconds
        while not ended():
            self.read()
            assert time.monotonic() < deadline, "\n".join(self.shown())
        while self.read():
            pass

    def shown(self) -> list[str]:
        """The lines of the screen, without empty lines at its end."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().splitlines()
