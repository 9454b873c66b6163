"""Python environments in the user's cache, created once for each list of requirements. Standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.system.beside import kill_with_children
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.environment import curated
from py_driver.system.files import is_file
from py_driver.system.locks import is_taken, locked
from py_driver.system.pip_config import pip_of, settings_of
from py_driver.system.uv import as_uv, command_of, requirement, usable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from py_driver.errors import DriverError
    from py_driver.output import Output
    from py_driver.system.uv import Installer

_ELSEWHERE: Final = "/"
"""The working directory for Python with `-m`: it looks for modules there first, and a project may have some."""

_OPTIONS: Final = ("--disable-pip-version-check", "--progress-bar=off", "--no-input", "--no-compile")
"""Python compiles imported files; pip would compile all files, which takes two thirds of installing torch."""

_CACHE: Final = ".uv-cache"
"""The directory in an unfinished environment for downloads that uv may not keep."""

_MARKER = "complete"
_DAY = 86400
_NAME = re.compile("[a-z]+-[0-9a-f]{12}")
_LINES_SHOWN = 3
_NETWORK = ("NewConnectionError", "NameResolutionError", "ConnectTimeout", "ProxyError", "Network is unreachable")


def ensure_venv(  # noqa: PLR0913  (how, by name)
    name: str,
    requirements: Sequence[str],
    output: Output,
    *,
    python: str = sys.executable,
    inherit: bool = False,
    imports: Sequence[str] = (),
    started: Callable[[subprocess.Popen[str]], None] | None = None,
) -> Path:
    """An environment with requirements, created by uv or pip, with pip's configuration, unless it exists.

    It has no pip unless the requirements include pip.

    Args:
        name: its purpose, a part of its directory's name.
        requirements: requirements in pip's form; each list has its own environment.
        output: where progress is shown.
        python: the base interpreter; without `inherit` all environments of the same base share the result.
        inherit: whether the packages of that interpreter are visible.
        imports: modules to import once: Python then keeps their bytecode, which programs that write none use.
        started: called with each program to wait for, which may be killed.

    Returns:
        The environment's interpreter.

    Raises:
        DriverError: NO_NETWORK or SET_UP if pip or venv fails; NO_SPACE, PERMISSION.
    """
    below = python if inherit else os.path.realpath(python)  # an environment's interpreter is a link to it
    key = json.dumps([sorted(requirements), below, inherit, sys.version])
    venvs = cache_root() / "venvs"
    root = venvs / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    interpreter = root / "bin" / "python"
    if is_file(root / _MARKER) and interpreter.exists():
        with suppress(OSError):  # a cache that is read-only
            (root / _MARKER).touch()  # for `unused`
        return interpreter
    with storage_errors(root):
        venvs.mkdir(parents=True, exist_ok=True)
        with locked(venvs / f"{root.name}.lock"):
            if not (root / _MARKER).is_file():
                wait = started or (lambda _: None)
                _make(root, requirements, output, below, inherit=inherit, imports=imports, started=wait)
                (root / _MARKER).touch()
    return interpreter


def made(name: str) -> list[Path]:
    """The interpreters of the finished environments for a purpose, sorted; none is created."""
    found = sorted((cache_root() / "venvs").glob(f"{name}-*/{_MARKER}"))
    return [path.parent / "bin" / "python" for path in found if (path.parent / "bin" / "python").exists()]


def unused(venvs: Path, days: int) -> list[Path]:
    """The environments that are unfinished, or that `ensure_venv` did not return for some days, without this one.

    Args:
        venvs: the directory of all environments.
        days: the number of days.
    """
    found = []
    for root in sorted(venvs.iterdir()) if venvs.is_dir() else []:
        if not _NAME.fullmatch(root.name) or not root.is_dir() or Path(sys.prefix).resolve() == root.resolve():
            continue
        marker = root / _MARKER
        old = not marker.is_file() or marker.stat().st_mtime < time.time() - days * _DAY
        if old and not is_taken(venvs / f"{root.name}.lock"):
            found.append(root)
    return found


def _make(  # noqa: PLR0913  (the arguments of `ensure_venv`)
    root: Path,
    requirements: Sequence[str],
    output: Output,
    python: str,
    *,
    inherit: bool,
    imports: Sequence[str],
    started: Callable[[subprocess.Popen[str]], None],
) -> None:
    with output.task(f"setting up Python for {root.name.rpartition('-')[0]}") as task:
        _install(root, requirements, python, task.update, started, inherit=inherit)
        if imports:
            task.update(f"compiling {', '.join(imports)}")
            _run([str(root / "bin" / "python"), "-c", f"import {', '.join(imports)}"], curated(), task.update, started)
        task.done("done")


def _install(  # noqa: PLR0913  (the arguments of `ensure_venv`)
    root: Path,
    requirements: Sequence[str],
    python: str,
    show: Callable[[str], None],
    started: Callable[[subprocess.Popen[str]], None],
    *,
    inherit: bool,
) -> None:
    """Create an environment with packages, by uv or pip."""
    _make_empty(root, python, started, inherit=inherit)
    pip, settings = _pip_for(root, python, started)
    # uv does not see packages of another interpreter that an environment makes visible.
    installer = None if inherit else as_uv(settings, curated())
    if installer is not None and _installed_by_uv(root, pip, installer, requirements, show, started):
        return
    if installer is not None:  # pip reports the error, or succeeds
        show("installing by pip")
        _make_empty(root, python, started, inherit=inherit)
        pip, _ = _pip_for(root, python, started)
    status, lines = _run([*pip, "install", *_OPTIONS, *requirements], curated(), show, started)
    if status:
        raise pip_problem(requirements, lines)


def _make_empty(root: Path, python: str, started: Callable[[subprocess.Popen[str]], None], *, inherit: bool) -> None:
    """Create an environment without packages: installing pip into it takes longer than everything else."""
    shutil.rmtree(root, ignore_errors=True)
    options = ["--without-pip", *(["--system-site-packages"] if inherit else [])]
    status, lines = _run([python, "-m", "venv", *options, str(root)], None, lambda _: None, started)
    if status:
        raise _cannot_make(python, lines)
    if inherit:
        _show_packages(python, root)


def _pip_for(
    root: Path, python: str, started: Callable[[subprocess.Popen[str]], None]
) -> tuple[list[str], dict[str, str]]:
    """The pip that installs into an environment: of its base interpreter, or its own.

    Args:
        root: the directory of the environment.
        python: its base interpreter.
        started: called with each program to wait for.

    Returns:
        Its command, and its settings.
    """
    own = str(root / "bin" / "python")
    for below in dict.fromkeys((python, os.path.realpath(python))):
        pip = pip_of(below, own)
        status, lines = _run([*pip, "config", "list"], curated(), lambda _: None, started)
        if not status:
            return pip, settings_of(lines, "install")
    status, lines = _run([own, "-m", "ensurepip", "--default-pip"], None, lambda _: None, started)
    if status:
        raise _cannot_make(python, lines)
    pip = pip_of(own)
    status, lines = _run([*pip, "config", "list"], curated(), lambda _: None, started)
    return pip, {} if status else settings_of(lines, "install")


def _installed_by_uv(  # noqa: PLR0913  (the values of `_make`)
    root: Path,
    pip: Sequence[str],
    installer: Installer,
    requirements: Sequence[str],
    show: Callable[[str], None],
    started: Callable[[subprocess.Popen[str]], None],
) -> bool:
    """Install into an empty environment by uv; returns whether uv exists and succeeded."""
    mine = {}
    program = usable(os.environ)
    if program is None:
        own = _own_uv(root.parent, pip, show, started)
        if own is None:
            return False
        program, mine = str(own / "bin" / "uv"), {"UV_CACHE_DIR": str(own / "cache")}
    elif kept := os.environ.get("UV_CACHE_DIR"):
        mine = {"UV_CACHE_DIR": kept}
    if not installer.keeps:
        mine = {"UV_CACHE_DIR": str(root / _CACHE)}
    command = command_of(program, installer, root / "bin" / "python", requirements)
    status, _ = _run(command, curated(extra={**installer.variables, **mine}), show, started)
    shutil.rmtree(root / _CACHE, ignore_errors=True)
    return not status


def _own_uv(
    venvs: Path,
    pip: Sequence[str],
    show: Callable[[str], None],
    started: Callable[[subprocess.Popen[str]], None],
) -> Path | None:
    """The directory with the driver's own uv and its downloads; None if pip does not find it.

    Like an environment, it is removed if it is not used for some time: see `unused`.
    """
    wanted = requirement()
    root = venvs / f"uv-{_digest(wanted, platform.machine())}"
    with locked(venvs / f"{root.name}.lock"):
        if not (root / _MARKER).is_file():
            shutil.rmtree(root, ignore_errors=True)
            show("fetching uv")
            # pip is the fallback, so nobody should wait for an index that does not answer.
            options = [*_OPTIONS, "--no-deps", "--only-binary=:all:", "--retries=0", f"--target={root}"]
            status, _ = _run([*pip, "install", *options, wanted], curated(), show, started)
            if status or not (root / "bin" / "uv").is_file():
                shutil.rmtree(root, ignore_errors=True)
                return None
        (root / _MARKER).touch()
    return root


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _cannot_make(python: str, lines: str) -> DriverError:
    message = f"{python} cannot make a virtual environment: {_last(lines)}"
    return error(Code.SET_UP, message, help="install Python's venv module (Debian: apt install python3-venv)")


def _run(
    command: Sequence[str],
    env: dict[str, str] | None,
    show: Callable[[str], None],
    started: Callable[[subprocess.Popen[str]], None],
) -> tuple[int, str]:
    """Run a program outside of any project; returns its exit code and its output.

    Args:
        command: the program and its arguments.
        env: the environment; this process's own if None.
        show: called with each line of output.
        started: called with the process.
    """
    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=env,
        cwd=_ELSEWHERE,
    ) as process:
        try:
            started(process)
            for line in process.stdout or ():
                lines.append(line.rstrip())
                show(line.strip())
        except BaseException:
            kill_with_children(process)
            raise
    return process.returncode, "\n".join(lines)


def pip_problem(requirements: Sequence[str], text: str) -> DriverError:
    """The error of a failed installation by pip.

    Args:
        requirements: the requirements.
        text: the output of pip.
    """
    offline = any(sign in text for sign in _NETWORK)
    why = f"its package index cannot be reached{_reason(text)}" if offline else _last(text)
    return error(
        Code.NO_NETWORK if offline else Code.SET_UP,
        f"pip could not install {' '.join(requirements)}: {why}",
        help="check the network and pip's configuration (`pip config list`)",
    )


def _show_packages(python: str, root: Path) -> None:
    """Make the packages of an environment's interpreter visible in a new environment.

    venv only shows the packages of the base interpreter.

    Args:
        python: the interpreter.
        root: the directory of the new environment.
    """
    program = "import site; print(*site.getsitepackages(), sep='\\n')"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False, cwd=_ELSEWHERE)
    [own] = root.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({path!r})" for path in done.stdout.splitlines()]
    (own / "_inherited.pth").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _reason(text: str) -> str:
    """The system's error, in brackets: pip's last lines only report that no version was found."""
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", text)
    return f" ({found[1]})" if found else ""


def _last(text: str) -> str:
    """The last non-empty lines, joined."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return " ".join((errors or lines)[-_LINES_SHOWN:])
