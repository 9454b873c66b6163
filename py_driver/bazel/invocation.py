"""What Bazel is told where the driver builds with it: command line, environment and startup options, in one place."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from py_driver.bazel.remote import REMOTE_JOBS, Remote, bazel_options
from py_driver.bazel.run import run as run_bazel
from py_driver.bazel.sandbox import isolation
from py_driver.bazel.spawns import options as log_options
from py_driver.matrix.facts import facts
from py_driver.matrix.installation import MODULE_NAME
from py_driver.system.cache import cache_root
from py_driver.system.memory import action_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from py_driver.bazel.events import Events
    from py_driver.bazel.find import Bazel
    from py_driver.bazel.run import Completed, Explain
    from py_driver.output import Output

_PYTHON_VARIABLE: Final = "RULES_TORCH_KERNELS_PYTHON"
"""Names the Python that repository rules run."""

_ACTIONS_SIZE: Final = "20G"
"""What Bazel lets results of actions grow to: when its server idles, it deletes those unused for the longest time."""


KEEP_GOING: Final = "--keep_going"
"""Bazel's option to build what it can after something has failed."""


class CudaCompile(StrEnum):
    """Whether each phase of nvcc is an action of its own."""

    SPLIT = "split"
    MONOLITHIC = "monolithic"


class Headers(StrEnum):
    """Which of torch's headers are read: those that a source needs, or all that it includes."""

    NEEDED = "needed"
    FULL = "full"


class Cxx(StrEnum):
    """The compiler of C++ sources that do not ask for OpenMP, which gcc compiles in any case."""

    CLANG = "clang"
    GCC = "gcc"


class Compress(StrEnum):
    """How device code of CUDA is compressed."""

    RELEASE = "release"
    SIZE = "size"
    BALANCE = "balance"
    SPEED = "speed"
    NONE = "none"


_FLAGS: Final = facts("settings")["FLAGS"]
CUDA_COMPILE: Final = CudaCompile(_FLAGS["cuda_compile"]["default"])
HEADERS: Final = Headers(_FLAGS["headers"]["default"])
COMPRESS: Final = Compress(_FLAGS["compress"]["default"])
CXX: Final = Cxx(_FLAGS["cxx"]["default"])
"""What these are where nobody chooses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """How variants are built.

    Attributes:
        jobs: how many actions at once; if None, Bazel decides, or `REMOTE_JOBS` if they run elsewhere.
        ram: what compile actions and Bazel may take together, in gigabytes; what the machine has if None.
        cuda_compile: if None, Bazel is not told, and a .bazelrc may.
        headers: likewise.
        cxx: likewise.
        compress: likewise.
        remote: a cache and an executor to use besides this machine.
        keep_going: build what can be built after something has failed.
        verbose: show the commands of what fails, and all that Bazel writes of it.
        warnings: show the warnings of compilers.
    """

    jobs: int | None = None
    ram: int | None = None
    cuda_compile: CudaCompile | None = None
    headers: Headers | None = None
    cxx: Cxx | None = None
    compress: Compress | None = None
    remote: Remote = field(default_factory=Remote)
    keep_going: bool = False
    verbose: bool = False
    warnings: bool = False

    @property
    def split(self) -> bool:
        """Whether nvcc compiles in phases."""
        return (self.cuda_compile or CUDA_COMPILE) is CudaCompile.SPLIT

    @property
    def gcc(self) -> bool:
        """Whether gcc compiles all C++."""
        return self.cxx is Cxx.GCC

    @property
    def compression(self) -> str:
        """How all device code of CUDA is compressed; empty for what each release says."""
        return self.compress if self.compress and self.compress is not COMPRESS else ""

    def at_once(self) -> int:
        """How many actions are expected to run at once."""
        return self._told() or len(os.sched_getaffinity(0))

    def memory(self, running: int) -> int | None:
        """Megabytes for compile actions of this machine; None if they run elsewhere.

        Args:
            running: builds that share the machine.
        """
        return None if self.remote.executor else action_memory(self.ram, running)

    def options(self, running: int) -> tuple[str, ...]:
        """What Bazel is told about how much to do at once, and with which settings.

        Args:
            running: builds that share the machine.
        """
        jobs = self._told()
        settings = {
            "cuda_compile": self.cuda_compile,
            "headers": self.headers,
            "cxx": self.cxx,
            "compress": self.compress,
        }
        return (
            *([f"--jobs={jobs}"] if jobs else []),
            f"--local_resources=memory={action_memory(self.ram, running)}",
            *([KEEP_GOING] if self.keep_going else []),
            *(f"--@{MODULE_NAME}//rules/settings:{name}={value}" for name, value in settings.items() if value),
        )

    def _told(self) -> int | None:
        return self.jobs or (REMOTE_JOBS if self.remote.executor else None)


_TOLD: Final = ("--output_groups=+steps", "--build_event_publish_all_actions")
"""What a build tells: of what its variants are made, and of each action that ran."""

_METRICS: Final = "--experimental_record_metrics_for_all_mnemonics"
"""For how long processors worked for each kind of action."""


def kept_results() -> Path:
    """Where Bazel keeps results of actions: its disk cache."""
    return cache_root() / "actions"


def building(choices: Choices, running: int, scratch: Path, log: Path, output: Output) -> list[str]:
    """The options of `driver build`, which takes results from caches and reports each action.

    Args:
        choices: how to build; addresses of what is remote can be reached by every Bazel.
        running: builds that share the machine.
        scratch: see `bazel_options`.
        log: where the execution log goes.
        output: where a weak sandbox is said.
    """
    return [
        *_TOLD,
        _METRICS,
        *log_options(log),
        f"--disk_cache={kept_results()}",
        f"--experimental_disk_cache_gc_max_size={_ACTIONS_SIZE}",
        *bazel_options(choices.remote, scratch),
        *([] if choices.remote.executor else isolation(output)),
        *choices.options(running),
    ]


def without_check(bazel: Bazel) -> list[str]:
    """The options for a Bazel that has looked in an earlier build whether files of toolchains have changed.

    There are thousands of them, and to ask the system about each takes longer than all else where little has changed.
    Files of projects and of the rules are still asked about. Only Bazel 7 is known to have the option.

    Args:
        bazel: which one.
    """
    return ["--noexperimental_check_external_repository_files"] if bazel.version.startswith("7.") else []


def verifying(choices: Choices, running: int, output: Output) -> list[str]:
    """The options of `driver verify`, which takes results from nowhere.

    Args:
        choices: how to build; nothing remote is among them.
        running: builds that share the machine.
        output: where a weak sandbox is said.
    """
    none = ("--disk_cache=", "--remote_cache=", "--remote_executor=")
    return [*_TOLD, *none, *isolation(output), *choices.options(running)]


def apart(bazel: Bazel, root: Path) -> Bazel:
    """A Bazel that has built nothing, and reads no settings of this machine or user.

    Args:
        bazel: which one.
        root: where it keeps its files.
    """
    return replace(bazel, startup=(*bazel.startup, "--nohome_rc", "--nosystem_rc", f"--output_user_root={root}"))


def build(  # noqa: PLR0913  (which Bazel, what, how, and where it is shown)
    bazel: Bazel,
    root: Path,
    labels: Iterable[str],
    output: Output,
    *,
    title: str,
    options: Iterable[str] = (),
    check: bool = True,
    explain: Explain | None = None,
    planned: float = 0.0,
    watch: Callable[[Events], None] | None = None,
) -> Completed:
    """Let Bazel build targets.

    Args:
        bazel: which one.
        root: of the workspace.
        labels: of the targets.
        output: where progress and errors are shown.
        title: what the work is called.
        options: see `building` and `verifying`.
        check: raise the failure, instead of returning it.
        explain: says what actions that failed are about.
        planned: seconds that the actions are expected to take; 0 if that is not known.
        watch: is called with what is built so far, now and then while Bazel runs.

    Raises:
        DriverError: see `py_driver.bazel.run`.
    """
    args = ["build", "--experimental_convenience_symlinks=ignore", *options, *labels]
    environment = {_PYTHON_VARIABLE: os.environ.get(_PYTHON_VARIABLE, sys.executable)}
    return run_bazel(
        bazel,
        args,
        root,
        output,
        env=environment,
        title=title,
        check=check,
        explain=explain,
        planned=planned,
        watch=watch,
    )
