"""The CPU: C++ alone."""

from __future__ import annotations

from typing import ClassVar

from py_driver.matrix.backends.backend import Backend


class Cpu(Backend):
    """The CPU, which has neither a toolkit nor architectures to choose."""

    torch_libraries: ClassVar[tuple[str, ...]] = ("libc10.so", "libtorch_cpu.so", "libtorch.so")
