"""Runs a command with a freshly built variant, which tests and scripts find as users do."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.building.variant_dir import read_metadata
from py_driver.errors import Code, error
from py_driver.matrix.installation import module_root
from py_driver.resources import resource
from py_driver.system.client import CLIENT
from py_driver.system.files import write, writing
from py_driver.system.interrupts import held
from py_driver.system.processes import stat_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.authoring.dev_build import DevBuild
    from py_driver.errors import DriverError

TAKEN: Final = frozenset(
    {*sys.stdlib_module_names, *tomli.loads(resource("load.toml"))["modules"], "rules_torch_kernels"}
)
"""Names of Python packages that a command needs; a project with such a name is available only from the client."""

_BY_CLIENT: Final = """import rules_torch_kernels.editable
import rules_torch_kernels.loading

rules_torch_kernels.editable.put_in_place(__name__, rules_torch_kernels.loading.load_variant({variant!r}))
"""

BUILDS: Final = "RULES_TORCH_KERNELS_BUILDS"
"""Environment variable with the projects that are built for a command, as JSON: pytest's plugin builds only others."""


def registration(build: DevBuild) -> dict[str, Any]:
    """A variant as a value for JSON, with the names under which a process finds it.

    Args:
        build: the variant.

    Raises:
        DriverError: PERMISSION or NO_SPACE.
    """
    paths = [] if build.module in TAKEN else [str(_importable(build))]
    return {**build.as_json(), "repositories": list(build.repositories), "import-from": paths}


def environment(build: DevBuild, python: str) -> dict[str, str]:
    """The variables of a command that uses a variant.

    `kernels.get_kernel("OWNER/NAME")` and `import NAME` return the variant, and each of its `others`; `python`, `pip`
    and `pytest` are those of its environment.

    Args:
        build: the variant.
        python: the interpreter of that environment.

    Raises:
        DriverError: USAGE if the project's path has a colon; PERMISSION or NO_SPACE.
    """
    builds = (build, *build.others)
    for path in (found.path.parent.absolute() for found in builds):
        if ":" in str(path):
            message = f"the path {path} has a `:`, which separates the paths of a list"
            raise error(Code.USAGE, message, help="move the project to another directory")
    local = ":".join(
        f"{repository}={found.path.parent.absolute()}" for found in builds for repository in found.repositories
    )
    theirs = os.environ.get("LOCAL_KERNELS", "")
    paths = [CLIENT, *(_importable(found) for found in builds if found.module not in TAKEN)]
    return {
        **python_environment(python, paths),
        # The client uses the last of two entries for a repository.
        "LOCAL_KERNELS": ":".join(filter(None, [theirs, local])),
        "RULES_TORCH_KERNELS_LIVE": str(build.pointer.absolute()),
        "RULES_TORCH_KERNELS_DRIVER": shlex.join(_own_command()),
        BUILDS: json.dumps({str(found.directory.resolve()): registration(found) for found in builds}),
    }


def python_environment(python: str, paths: Iterable[Path]) -> dict[str, str]:
    """The variables of a command that finds an interpreter on PATH, and imports from directories.

    Args:
        python: the interpreter of an environment.
        paths: the directories, which precede those of PYTHONPATH.
    """
    return {
        **os.environ,
        "PATH": os.pathsep.join(filter(None, [str(Path(python).parent), os.environ.get("PATH", "")])),
        "VIRTUAL_ENV": str(Path(python).parents[1]),
        "PYTHONPATH": os.pathsep.join(filter(None, [*map(str, paths), os.environ.get("PYTHONPATH", "")])),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _own_command() -> list[str]:
    """The command that starts this driver: the launcher of a checkout, or the installed program."""
    launcher = module_root() / "driver"
    return [str(launcher)] if launcher.is_file() else [sys.executable, "-m", "py_driver"]


def _importable(build: DevBuild) -> Path:
    """A directory from which `import NAME` loads the variant: with a link of that name to it.

    A kernel that depends on others finds them only if the `kernels` client loads it, so for such a kernel a module of
    that name calls the client.
    """
    if (read_metadata(build.path) or {}).get("kernel-depends"):
        directory = build.path.parent / "import-by-client"
        text = _BY_CLIENT.format(variant={"path": str(build.path.absolute()), "backend": build.backend})
        with writing(directory):
            directory.mkdir(exist_ok=True)
            write(directory / f"{build.module}.py", text.encode())
        return directory.absolute()
    directory = build.path.parent / "import"
    link = directory / build.module
    with writing(directory):
        directory.mkdir(exist_ok=True)
        with suppress(FileExistsError):  # also another command of the project may just make it
            link.symlink_to(Path("..", build.path.name), target_is_directory=True)
    return directory.absolute()


def start(
    command: Sequence[str],
    build: DevBuild,
    python: str,
    *,
    more: Mapping[str, str] | None = None,
    alone: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a command with a variant.

    Args:
        command: the command; its first word is looked up on the PATH that it sees.
        build: the variant.
        python: see `environment`.
        more: further variables.
        alone: whether to run in a new process group, which `stop` ends completely, and without stdin, since only one
            group may read from a terminal.

    Raises:
        DriverError: SET_UP if it cannot be started.
        KeyboardInterrupt: Ctrl-C during the start; a command that is `alone` has then ended.
    """
    return launch(command, {**environment(build, python), **(more or {})}, alone=alone)


def launch(
    command: Sequence[str], environ: Mapping[str, str], *, directory: Path | None = None, alone: bool = False
) -> subprocess.Popen[bytes]:
    """Start a command with variables; see `start`.

    Args:
        command: the command; its first word is looked up on the PATH that it sees.
        environ: its variables.
        directory: its working directory; this process's if None.
        alone: as in `start`.

    Raises:
        DriverError: SET_UP if it cannot be started.
        KeyboardInterrupt: Ctrl-C during the start; a command that is `alone` has then ended.
    """
    with held() as let_signals_come:
        try:
            process = subprocess.Popen(
                command,
                env=environ,
                cwd=directory,
                process_group=0 if alone else None,
                stdin=subprocess.DEVNULL if alone else None,
            )
        except OSError as problem:
            raise _no_start(command[0], problem) from None
        try:
            let_signals_come()
        except KeyboardInterrupt:
            if alone:
                stop(process)
            raise
    return process


def _no_start(program: str, problem: OSError) -> DriverError:
    """The error for a program that the system cannot start."""
    if not isinstance(problem, FileNotFoundError | PermissionError):
        return error(Code.SET_UP, f"`{program}` cannot be started: {problem.strerror}")
    if os.sep in program:
        kind = "a directory" if Path(program).is_dir() else "not executable" if Path(program).exists() else "not there"
        return error(Code.SET_UP, f"`{program}` is {kind}", help="name a program to run after `--`")
    advice = "install it into the environment that has torch, or name its path"
    return error(Code.SET_UP, f"`{program}` is not a program on PATH", help=advice)


def exit_code(ended: int) -> int:
    """The exit code of a process as in a shell, 137 after signal 9.

    Args:
        ended: the exit code of `subprocess`, -9 in that case.
    """
    return 128 - ended if ended < 0 else ended


def wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for a command, and return its exit code.

    A terminal sends Ctrl-C to the command as well, which handles it; other terminating signals are passed on.
    """
    before = {name: signal.signal(name, lambda *_: process.terminate()) for name in (signal.SIGTERM, signal.SIGHUP)}
    try:
        while True:
            with suppress(KeyboardInterrupt):
                return exit_code(process.wait())
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def stop(process: subprocess.Popen[bytes], seconds: float = 5) -> None:
    """End a command that was started `alone`, with all its children: gently first.

    A second Ctrl-C meanwhile ends it at once.

    Args:
        process: the process of the command, which may have ended before its children.
        seconds: the time for it to end by itself.
    """
    try:
        _signal(process, signal.SIGTERM)
        end = time.monotonic() + seconds
        while time.monotonic() < end and _members(process):
            time.sleep(0.01)
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to the group of a command, if it still exists."""
    if _members(process):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _members(process: subprocess.Popen[bytes]) -> list[int]:
    """The running processes in the group of a command, in this session."""
    process.poll()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, group, session = stat_fields(path)[:4]
        except (OSError, ValueError):
            continue
        if int(group) == process.pid and int(session) == os.getsid(0) and state != "Z":
            found.append(int(path.name))
    return found
