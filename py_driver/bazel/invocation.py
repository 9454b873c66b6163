"""The command line, environment and startup options of the driver's builds with Bazel."""

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
"""The limit of Bazel's disk cache: an idle server deletes the least recently used results."""


KEEP_GOING: Final = "--keep_going"
"""Bazel's option to build what it can after something has failed."""


class CudaCompile(StrEnum):
    """Whether each phase of nvcc is an action of its own."""

    SPLIT = "split"
    MONOLITHIC = "monolithic"


class Headers(StrEnum):
    """The set of torch's headers that is read: those that a source needs, or all that it includes."""

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
"""The defaults of these settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """How variants are built.

    Attributes:
        jobs: the number of actions at once; if None, Bazel decides, or `REMOTE_JOBS` if they run elsewhere.
        ram: the memory for compile actions and Bazel together, in gigabytes; all of the machine's if None.
        cuda_compile: if None, the option is not passed, and a .bazelrc may set it.
        headers: None as for `cuda_compile`.
        cxx: None as for `cuda_compile`.
        compress: None as for `cuda_compile`.
        remote: a remote cache and executor.
        keep_going: whether to continue after a failure.
        verbose: whether to show the commands of failed actions, and all of Bazel's output about them.
        warnings: whether to show the warnings of compilers.
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
        """The compression of all device code of CUDA; empty for each release's default."""
        return self.compress if self.compress and self.compress is not COMPRESS else ""

    def at_once(self) -> int:
        """The expected number of actions at once."""
        return self._told() or len(os.sched_getaffinity(0))

    def memory(self, running: int) -> int | None:
        """The megabytes for compile actions on this machine; None if they run elsewhere.

        Args:
            running: the number of builds that share the machine.
        """
        return None if self.remote.executor else action_memory(self.ram, running)

    def options(self, running: int) -> tuple[str, ...]:
        """Bazel's options for parallelism and settings.

        Args:
            running: the number of builds that share the machine.
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
"""The options for reports of variants' parts, and of each action that ran."""

_METRICS: Final = "--experimental_record_metrics_for_all_mnemonics"
"""The option for the processor time of each kind of action."""


def kept_results() -> Path:
    """Bazel's disk cache."""
    return cache_root() / "actions"


def building(choices: Choices, running: int, scratch: Path, log: Path, output: Output) -> list[str]:
    """The options of `driver build`, which uses caches and reports each action.

    Args:
        choices: the options of the build, with remote addresses that every Bazel can reach.
        running: the number of builds that share the machine.
        scratch: see `bazel_options`.
        log: the path of the execution log.
        output: reports a weak sandbox.
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
    """The options for a Bazel that has already checked in an earlier build whether files of toolchains have changed.

    There are thousands of files, and checking each takes longer than everything else if little has changed. Files of
    projects and of the rules are still checked. Only Bazel 7 is known to have the option.

    Args:
        bazel: the Bazel.
    """
    return ["--noexperimental_check_external_repository_files"] if bazel.version.startswith("7.") else []


def verifying(choices: Choices, running: int, output: Output) -> list[str]:
    """The options of `driver verify`, which uses no cache.

    Args:
        choices: the options of the build, without remote addresses.
        running: the number of builds that share the machine.
        output: reports a weak sandbox.
    """
    none = ("--disk_cache=", "--remote_cache=", "--remote_executor=")
    return [*_TOLD, *none, *isolation(output), *choices.options(running)]


def apart(bazel: Bazel, root: Path) -> Bazel:
    """A Bazel that has built nothing, and reads no settings of this machine or user.

    Args:
        bazel: the Bazel.
        root: the directory for its files.
    """
    return replace(bazel, startup=(*bazel.startup, "--nohome_rc", "--nosystem_rc", f"--output_user_root={root}"))


def build(  # noqa: PLR0913  (the Bazel, the targets, the options, and the output)
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
    """Have Bazel build targets.

    Args:
        bazel: the Bazel.
        root: the root of the workspace.
        labels: the labels of the targets.
        output: shows progress and errors.
        title: the title of the progress.
        options: see `building` and `verifying`.
        check: whether to raise the failure, instead of returning it.
        explain: explains failed actions.
        planned: the expected duration of the actions in seconds; 0 if unknown.
        watch: is called periodically with the results so far.

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
