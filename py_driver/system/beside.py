"""Work in a thread beside the main thread's work, and the programs that it starts."""

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
"""How long to wait for stopped work: its program is dead by then, and it removes unfinished files."""

T = TypeVar("T")


def kill_with_children(program: subprocess.Popen[Any]) -> None:
    """Kill a program and all its descendants, e.g. pip below `python -m venv`; no effect if it has ended.

    Args:
        program: the program; Linux lists its descendants, see proc_pid_task_children(5).
    """
    if program.poll() is None:
        waiting = [program.pid]
        for number in waiting:
            # New children of a process are stopped with it.
            with suppress(OSError):
                os.kill(number, signal.SIGSTOP)
                waiting += map(int, Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii").split())
        for number in waiting:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)


class Beside(Generic[T]):
    """The future result of work in a thread; made by `beside`.

    Attributes:
        stopped: set when the work is no longer needed.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._result: list[T] = []
        self._failure: BaseException | None = None
        self._program: subprocess.Popen[Any] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def started(self, program: subprocess.Popen[Any]) -> None:
        """Register the program that the work waits for: it is killed if the work is stopped."""
        with self._lock:
            self._program = program
            if self.stopped.is_set():
                kill_with_children(program)

    def result(self) -> T:
        """Wait for the work's result.

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
        """Stop the work, and kill the program that it waits for; no effect if it has ended."""
        with self._lock:
            self.stopped.set()
            if self._program is not None:
                kill_with_children(self._program)
        if self._thread is not None:
            self._thread.join(_END_SECONDS)


@contextmanager
def beside(work: Callable[[Beside[T]], T]) -> Iterator[Beside[T]]:
    """Run work in a thread during the context; unfinished work is stopped at the end.

    Args:
        work: the work; its argument registers programs and signals when to stop.
    """
    going = Beside[T]()
    try:
        going.start(work)
        yield going
    finally:
        going.stop()
