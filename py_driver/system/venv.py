"""Python environments in the user's cache, made once for each list of requirements. Standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.environment import curated
from py_driver.system.locks import is_taken, locked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.errors import DriverError
    from py_driver.output import Output

_ELSEWHERE: Final = "/"
"""Where Python runs with `-m`: it looks for modules in the working directory first, and that may be a project's."""

_NO_BYTECODE: Final = "--no-compile"
"""Python compiles what it imports; pip would compile all files, two thirds of the time to install torch."""

_MARKER = "complete"
_DAY = 86400
_NAME = re.compile("[a-z]+-[0-9a-f]{12}")
_LINES_SHOWN = 3
_NETWORK = ("NewConnectionError", "NameResolutionError", "ConnectTimeout", "ProxyError", "Network is unreachable")


def ensure_venv(
    name: str,
    requirements: Sequence[str],
    output: Output,
    *,
    python: str = sys.executable,
    inherit: bool = False,
) -> Path:
    """An environment with some requirements; made, through pip and its configuration, if it is not there.

    Args:
        name: what it is for; a part of its directory's name.
        requirements: as pip understands them; others make another environment.
        output: where progress is shown.
        python: the interpreter to make it from; without `inherit` all environments of one interpreter share it.
        inherit: whether the packages of that interpreter are visible in it.

    Returns:
        The environment's interpreter.

    Raises:
        DriverError: NO_NETWORK or SET_UP if pip or venv fails; NO_SPACE, PERMISSION.
    """
    below = python if inherit else os.path.realpath(python)  # an environment's own is a link to it
    key = json.dumps([sorted(requirements), below, inherit, sys.version])
    venvs = cache_root() / "venvs"
    root = venvs / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    interpreter = root / "bin" / "python"
    if (root / _MARKER).is_file() and interpreter.exists():
        with suppress(OSError):  # a cache that nobody may write to
            (root / _MARKER).touch()  # `unused` sees when
        return interpreter
    with storage_errors(root):
        venvs.mkdir(parents=True, exist_ok=True)
        with locked(venvs / f"{root.name}.lock"):
            if not (root / _MARKER).is_file():
                shutil.rmtree(root, ignore_errors=True)
                _make(root, requirements, output, below, inherit=inherit)
                (root / _MARKER).touch()
    return interpreter


def made(name: str) -> list[Path]:
    """The interpreters of the environments for something that are finished, sorted; nothing is made."""
    found = sorted((cache_root() / "venvs").glob(f"{name}-*/{_MARKER}"))
    return [path.parent / "bin" / "python" for path in found if (path.parent / "bin" / "python").exists()]


def unused(venvs: Path, days: int) -> list[Path]:
    """The environments that `ensure_venv` did not finish, or did not return for some days; not the one that runs this.

    Args:
        venvs: the directory of all.
        days: how many.
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


def _make(root: Path, requirements: Sequence[str], output: Output, python: str, *, inherit: bool) -> None:
    with output.task(f"setting up Python for {root.name.rpartition('-')[0]}") as task:
        venv = [python, "-m", "venv", *(["--system-site-packages"] if inherit else []), str(root)]
        done = subprocess.run(venv, capture_output=True, text=True, check=False, cwd=_ELSEWHERE)
        if done.returncode:
            message = f"{python} cannot make a virtual environment: {_last(done.stdout + done.stderr)}"
            raise error(Code.SET_UP, message, help="install Python's venv module (Debian: apt install python3-venv)")
        if inherit:
            _show_packages(python, root)
        options = ["--disable-pip-version-check", "--progress-bar=off", "--no-input", _NO_BYTECODE]
        pip = [str(root / "bin" / "python"), "-m", "pip", "install", *options, *requirements]
        lines: list[str] = []
        with subprocess.Popen(
            pip,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=curated(),
            cwd=_ELSEWHERE,
        ) as process:
            try:
                for line in process.stdout or ():
                    lines.append(line.rstrip())
                    task.update(line.strip())
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise pip_problem(requirements, "\n".join(lines))
        task.done("done")


def pip_problem(requirements: Sequence[str], text: str) -> DriverError:
    """Why pip installed nothing.

    Args:
        requirements: that it was to install.
        text: what it printed.
    """
    offline = any(sign in text for sign in _NETWORK)
    why = f"its package index cannot be reached{_reason(text)}" if offline else _last(text)
    return error(
        Code.NO_NETWORK if offline else Code.SET_UP,
        f"pip could not install {' '.join(requirements)}: {why}",
        help="check the network and pip's configuration (`pip config list`)",
    )


def _show_packages(python: str, root: Path) -> None:
    """Show an environment the packages of an interpreter that is itself of an environment.

    venv shows it those of the interpreter below that one only.

    Args:
        python: the interpreter.
        root: of the new environment.
    """
    program = "import site; print(*site.getsitepackages(), sep='\\n')"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False, cwd=_ELSEWHERE)
    [own] = root.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({path!r})" for path in done.stdout.splitlines()]
    (own / "_inherited.pth").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _reason(text: str) -> str:
    """What the system said, in brackets: pip's last lines say only that it found no version."""
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", text)
    return f" ({found[1]})" if found else ""


def _last(text: str) -> str:
    """The last lines that say something, as one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return " ".join((errors or lines)[-_LINES_SHOWN:])
