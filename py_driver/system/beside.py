"""Work that goes on in a thread while the main one does other work, and the programs that it has started."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

_END_SECONDS: Final = 5
"""How long the end of stopped work is awaited: its program is dead then, and it removes what it has begun."""

T = TypeVar("T")


def kill_with_children(program: subprocess.Popen[Any]) -> None:
    """Kill a program and all that it has started, e.g. pip below `python -m venv`; nothing happens if it has ended.

    Args:
        program: whose descendants Linux lists, see proc_pid_task_children(5).
    """
    if program.poll() is None:
        waiting = [program.pid]
        for number in waiting:
            # What it starts from now on is stopped with it.
            with suppress(OSError):
                os.kill(number, signal.SIGSTOP)
                waiting += map(int, Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii").split())
        for number in waiting:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)


class Beside(Generic[T]):
    """The result of some work to come; made by `beside`.

    Attributes:
        stopped: set when nobody waits for the work any more.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._result: list[T] = []
        self._failure: BaseException | None = None
        self._program: subprocess.Popen[Any] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def started(self, program: subprocess.Popen[Any]) -> None:
        """Note the program that the work waits for: it is killed if the work is stopped."""
        with self._lock:
            self._program = program
            if self.stopped.is_set():
                kill_with_children(program)

    def result(self) -> T:
        """What the work returned, awaited.

        Raises:
            BaseException: what the work raised.
        """
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._result[0]

    def start(self, work: Callable[[Beside[T]], T]) -> None:
        """Start the work."""

        def run() -> None:
            try:
                self._result.append(work(self))
            except BaseException as failure:  # noqa: BLE001  (`result` raises it)
                self._failure = failure

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Tell the work to stop, and kill the program that it waits for; nothing happens if it has ended."""
        with self._lock:
            self.stopped.set()
            if self._program is not None:
                kill_with_children(self._program)
        if self._thread is not None:
            self._thread.join(_END_SECONDS)


@contextmanager
def beside(work: Callable[[Beside[T]], T]) -> Iterator[Beside[T]]:
    """Do some work in a thread as long as this lasts; what is not done at the end is stopped.

    Args:
        work: what to do; gets what it notes its programs with, and which says when to stop.
    """
    going = Beside[T]()
    try:
        going.start(work)
        yield going
    finally:
        going.stop()
