"""A kernel that follows its sources: `driver run --watch` builds, and whoever holds `load(NAME)` gets the newest."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from rules_torch_kernels.loading import load_variant

LIVE = "RULES_TORCH_KERNELS_LIVE"
"""Environment variable that names the file in which the driver says what it built last."""

FOLLOWERS = "followers"
"""The directory beside that file in which a process that follows has a file, named by its process id, with the time of
its start."""

_START = 19
"""The place of that time behind the name of the program in `/proc/PID/stat`; see proc_pid_stat(5)."""

_GONE = -1
"""In the place of the time of its last change, of a file that is not there."""


class LiveKernel(ModuleType):
    """The newest build of a kernel, with the attributes of its module.

    Attributes of a build that was loaded earlier keep working: another build never takes a library away. What is loaded
    stays too when the newest build cannot be loaded, or nothing names one any more; a warning says so, once.
    """

    def __init__(self, name: str, pointer: Path) -> None:
        super().__init__(name)
        self.__dict__["_pointer"] = pointer
        self.__dict__["_seen"] = None
        self.__dict__["_module"] = None
        self._newest()

    def _newest(self) -> ModuleType:
        """The module of the newest build; loaded if it was not yet."""
        own = self.__dict__
        try:
            state = os.stat(own["_pointer"]).st_mtime_ns  # noqa: PTH116  (called for each attribute)
        except OSError:
            state = _GONE
        if state != own["_seen"]:
            own["_seen"] = state
            try:
                own["_module"] = load_variant(json.loads(own["_pointer"].read_text(encoding="utf-8")))
            except Exception as problem:
                if own["_module"] is None:
                    raise
                warnings.warn(f"the last build of {self.__name__} stays: {problem!r}", RuntimeWarning, stacklevel=3)
        module: ModuleType = own["_module"]
        return module

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the kernel has)
        return getattr(self._newest(), name)

    def __dir__(self) -> list[str]:
        return dir(self._newest())

    def __repr__(self) -> str:
        return f"<live kernel {self.__name__!r}: {self._newest().__name__}>"


def _latest(directory: Path) -> Path | None:
    """The file that names the newest of a project's builds, of the variant that was built last."""
    return max(directory.glob("current.*.json"), key=lambda file: file.stat().st_mtime_ns, default=None)


def load(name: str, directory: str | os.PathLike[str] = "") -> LiveKernel:
    """The kernel that `driver run --watch` builds, always in its newest version.

    A process that calls this is not restarted when a file changes.

    Args:
        name: of the Python package.
        directory: of the project, for a process that `driver run` did not start, e.g. a notebook.

    Raises:
        RuntimeError: nothing says which kernel is meant, it was not built yet, or it has another name.
    """
    named = _latest(Path(directory, ".dev")) if directory else os.environ.get(LIVE)
    if not named:
        raise RuntimeError(
            "run this with `driver run DIR --watch -- CMD`, or name the directory of a project with a build"
        )
    pointer = Path(named).absolute()  # the process may change its directory
    try:
        module = json.loads(pointer.read_text(encoding="utf-8"))["module"]
    except (OSError, ValueError, LookupError, TypeError):
        raise RuntimeError(f"{pointer} names no build; run `driver run DIR --watch` first") from None
    if module != name:
        raise RuntimeError(f"`driver run` builds `{module}`, not `{name}`")
    followers = pointer.with_name(FOLLOWERS)
    followers.mkdir(exist_ok=True)
    about = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    (followers / str(os.getpid())).write_text(about.rpartition(")")[2].split()[_START], encoding="ascii")
    return LiveKernel(name, pointer)
