"""The machine that the driver runs on."""

from __future__ import annotations

import os


def machine_cpu() -> str:
    """Its CPU as Linux calls it, e.g. `x86_64`, `aarch64`; also one for which there are no compilers."""
    return os.uname().machine
