"""Delays Ctrl-C while a child is started, so that the code that has to end the child knows its id."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Delay SIGINT, SIGTERM and SIGHUP; yields a function that delivers them, as the end of the block does.

    `subprocess.Popen` could raise KeyboardInterrupt after the child has started and before the caller has its id.
    Signals that this process ignores stay ignored. Other threads than the main one delay nothing.

    Raises:
        KeyboardInterrupt: a signal arrived; raised by the function or at the end of the block.
    """
    came: list[tuple[int, FrameType | None]] = []
    holds = True
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    main = threading.current_thread() is threading.main_thread()
    before = {name: handler for name in names if main and callable(handler := signal.getsignal(name))}

    def take(number: int, frame: FrameType | None) -> None:
        if holds:
            came.append((number, frame))
        else:  # it arrived while handlers are restored, or after `let_come`
            before[signal.Signals(number)](number, frame)

    def let_come() -> None:
        nonlocal holds
        holds = False
        if came:
            first = came[0]
            came.clear()
            take(*first)

    try:
        for name in before:
            signal.signal(name, take)
        yield let_come
    finally:
        holds = False
        for name, handler in before.items():
            signal.signal(name, handler)
        let_come()
