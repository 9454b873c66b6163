"""The CPU: C++ alone."""

from __future__ import annotations

from typing import ClassVar

from py_driver.matrix.backends.backend import Backend


class Cpu(Backend):
    """The CPU, which has neither a toolkit nor architectures to choose."""

    family: ClassVar[str] = "cpu"
    recorded: ClassVar[tuple[str, ...] | None] = ()
