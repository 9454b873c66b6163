"""The machine that the driver runs on."""

from __future__ import annotations

import os


def machine_cpu() -> str:
    """The CPU in Linux's spelling, e.g. `x86_64`, `aarch64`; it may be a CPU without compilers."""
    return os.uname().machine
