"""The machine as a kernel's modules see it while they are read: environment variables, files, programs.

It is absent when a kernel is compiled, and unknown on a user's machine. So the compiled code must not depend on it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Variables(MutableMapping[str, str]):
    """The environment variables while the kernel's modules are read: the modules see one value for all, or none.

    Args:
        real: the real variables, which all other modules see.
        loader: of the kernel's modules.
        value: the value that the kernel's modules see; None if they see no variable.
    """

    def __init__(self, real: MutableMapping[str, str], loader: object, value: str | None) -> None:
        self._real = real
        self._loader = loader
        self._value = value

    def _is_asked(self) -> bool:
        """Whether the caller is a module of the kernel, directly or through `os`."""
        frame = sys._getframe(2)  # noqa: SLF001  (who calls is what is asked)
        while frame.f_back and frame.f_globals.get("__name__") in (
            __name__,
            "os",
            "collections.abc",
            "_collections_abc",
        ):
            frame = frame.f_back
        return frame.f_globals.get("__loader__") is self._loader

    def __getitem__(self, name: str) -> str:
        if not self._is_asked():
            return self._real[name]
        if self._value is None:
            raise KeyError(name)
        return self._value

    def __setitem__(self, name: str, value: str) -> None:
        self._real[name] = value

    def __delitem__(self, name: str) -> None:
        del self._real[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)


class Watch:
    """Records what a process reads besides Python's modules: files, directories, programs, libraries."""

    _EVENTS: ClassVar = {
        "open": "reads",
        "os.stat": "looks for",
        "os.listdir": "lists",
        "os.scandir": "lists",
        "subprocess.Popen": "runs",
        "os.system": "runs",
        "os.posix_spawn": "runs",
        "ctypes.dlopen": "loads",
    }

    def __init__(self) -> None:
        self._allowed: tuple[str, ...] = ()
        self._touched: list[str] | None = None

    def _see(self, event: str, arguments: Sequence[Any]) -> None:
        """An audit hook of Python: it cannot be removed."""
        verb = self._EVENTS.get(event) if self._touched is not None else None
        what = arguments[0] if verb and arguments else None
        if self._touched is None or isinstance(what, int) or not what:
            return
        text = os.fsdecode(what) if isinstance(what, str | bytes | os.PathLike) else str(what)
        path = os.path.abspath(text)  # noqa: PTH100  (a hook calls nothing that calls it)
        if verb == "runs" or not path.startswith(self._allowed):
            self._touched.append(f"{verb} `{text}`")

    @contextlib.contextmanager
    def watching(self, files: Sequence[str]) -> Iterator[list[str]]:
        """Watch.

        Args:
            files: the files that may be read.

        Yields:
            The accesses, each as a verb with a name.
        """
        if not self._allowed:
            sys.addaudithook(self._see)
        places = [*filter(None, sys.path), sys.prefix, sys.base_prefix, *files, "/dev/null"]
        self._allowed = tuple(os.path.abspath(place) for place in places)  # noqa: PTH100
        touched: list[str] = []
        self._touched = touched
        stat, access = os.stat, os.access

        def seen(function: Any) -> Any:  # noqa: ANN401  (a function of os)
            def call(path: Any, *args: Any, **words: Any) -> Any:  # noqa: ANN401
                self._see("os.stat", (path,))  # Python has no event for it
                return function(path, *args, **words)

            return call

        os.stat, os.access = seen(stat), seen(access)
        try:
            yield touched
        finally:
            os.stat, os.access = stat, access
            self._touched = None
