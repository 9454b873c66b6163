"""Where the progress of a build is shown: in the terminal, in a notebook, or past a program that keeps it to itself."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_TERMINAL = "/dev/tty"


def in_terminal() -> bool:
    """Whether stderr of this process is a terminal, which shows what the driver writes there."""
    try:
        return os.isatty(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False


def notebook() -> Callable[[str], Any] | None:
    """What shows a line in a notebook, whose stderr is no file; None outside of one."""
    return sys.stderr.write if "ipykernel" in sys.modules else None


def past_the_installer(line: str) -> None:
    """Show a line to pip or uv, and to the user: an installer shows what a build says only if it fails.

    Args:
        line: with its end.
    """
    sys.stderr.write(line)
    sys.stderr.flush()
    try:
        terminal = os.open(_TERMINAL, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # none, as in CI
        return
    try:
        if os.tcgetpgrp(terminal) == os.getpgrp():
            # The installer's spinner stands in the line.
            os.write(terminal, f"\r\033[K{line.rstrip()}\r\n".encode(errors="replace"))
    except OSError:
        pass
    finally:
        os.close(terminal)
