"""What a setup.py sees of this machine and what differs from one to another: the same everywhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_CPUS = 4
_listdir, _scandir, _uname = os.listdir, os.scandir, os.uname


class _Sorted:
    """The entries of a directory by name: the order of a file system depends on how it was filled."""

    def __init__(self, path: Any) -> None:  # noqa: ANN401  (what os.scandir accepts)
        with _scandir(path) as entries:
            self._entries: Iterator[Any] = iter(sorted(entries, key=lambda entry: entry.name))

    def __iter__(self) -> _Sorted:
        return self

    def __next__(self) -> Any:  # noqa: ANN401
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the listing."""
        self._entries = iter(())


def hold(cpu: str) -> None:
    """Answer with sorted directories, a fixed number of CPUs, and the CPU of the configuration.

    Args:
        cpu: e.g. `aarch64`.
    """

    def scandir(path: Any = ".") -> _Sorted:  # noqa: ANN401
        return _Sorted(path)

    def listdir(path: Any = None) -> list[Any]:  # noqa: ANN401
        return sorted(_listdir(path))

    def uname() -> os.uname_result:
        host = _uname()
        return os.uname_result((host.sysname, "localhost", host.release, host.version, cpu))

    for name, function in (("scandir", scandir), ("listdir", listdir), ("uname", uname)):
        setattr(os, name, function)
    os.cpu_count = lambda: _CPUS
    os.sched_getaffinity = lambda _pid: set(range(_CPUS))
