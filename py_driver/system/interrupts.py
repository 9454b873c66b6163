"""Holds Ctrl-C back while a child is started, so that whoever has to end the child knows of it."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Hold back SIGINT, SIGTERM and SIGHUP; yields what lets them come, as the end of the block does.

    `subprocess.Popen` would raise KeyboardInterrupt after the child has started and before anybody has its number.
    Signals that this process ignores stay ignored. Python handles signals in the main thread; others hold nothing.

    Raises:
        KeyboardInterrupt: a signal came; by the function or by the end of the block.
    """
    came: list[tuple[Any, ...]] = []
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    main = threading.current_thread() is threading.main_thread()
    before = {name: handler for name in names if main and callable(handler := signal.getsignal(name))}

    def let_come() -> None:
        for name, handler in before.items():
            signal.signal(name, handler)
        if came:
            number, frame = came[0]
            came.clear()
            before[number](number, frame)

    for name in before:
        signal.signal(name, lambda *what: came.append(what))
    try:
        yield let_come
    finally:
        let_come()
