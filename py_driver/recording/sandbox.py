"""Runs a program without a network, without the user's files, and with limits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error
from py_driver.recording import landlock, namespaces
from py_driver.recording.facts import facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

INSIDE: Final = "/build"
"""The directory in which a program in namespaces finds its own files."""

_PROGRAM: Final = "import sys; sys.path.insert(0, sys.argv[1]); from py_driver.recording.confined import main; main()"
_PATIENCE: Final = 5.0
"""How many seconds a program has to end its children when the user interrupts."""

_ROOT: Final = Path(__file__).parents[2]
_SYSTEM: Final = (
    *("/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec"),
    *("/nix/store", "/gnu/store"),
)
_SHARED: Final = (
    "/usr/share/git-core",
    "/usr/share/zoneinfo",
    "/usr/share/locale",
    "/usr/share/misc",
    "/etc/ld.so.cache",
)
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/proc")
_FILES: Final = [
    ("/etc/passwd", f"builder:x:1000:1000:builder:{INSIDE}/home:/bin/sh\n"),
    ("/etc/group", "builder:x:1000:\n"),
    ("/etc/hosts", "127.0.0.1 localhost\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
]
_ADVICE: Final = (
    "allow user namespaces (`sysctl kernel.unprivileged_userns_clone=1`, "
    "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`; in a container `--security-opt seccomp=unconfined`), "
    "or use Linux 5.13 or newer with Landlock"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The outcome of a program.

    Attributes:
        how: `exit`, or the limit that it passed: `time`, `processes`, `memory`, `disk`.
        code: its exit code; negative for a signal.
        output: its output.
    """

    how: str
    code: int
    output: str


@cache
def isolation() -> str:
    """The way in which this machine can confine a program: `namespaces` or `landlock`.

    Raises:
        DriverError: SET_UP if it cannot.
    """
    if namespaces.allowed():
        return "namespaces"
    if landlock.version():
        return "landlock"
    message = "this machine cannot confine a setup.py: it allows no user namespaces and has no Landlock"
    raise error(Code.SET_UP, message, help=_ADVICE)


def inside(scratch: Path) -> str:
    """The directory under which a confined program finds its own files.

    Args:
        scratch: the directory outside of the confinement.
    """
    return INSIDE if isolation() == "namespaces" else str(scratch)


def python_files() -> list[Path]:
    """The files of this Python's interpreter and standard library, without its packages."""
    paths = sysconfig.get_paths()
    names = [paths[name] for name in ("stdlib", "platstdlib", "include")]
    places = [sysconfig.get_config_var("LIBDIR"), interpreter(), *names]
    found: list[Path] = []
    for path in (Path(name).resolve() for name in places if name):
        if path.exists() and not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return found


def interpreter() -> str:
    """The interpreter of this Python, outside of a virtual environment."""
    return os.path.realpath(sys.executable)


def run(  # noqa: PLR0913  (a program needs more than its command)
    scratch: Path,
    shown: Mapping[str, Path],
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    writable: Sequence[str],
    limits: Mapping[str, int],
) -> Ended:
    """Run a program confined, until it ends.

    Args:
        scratch: a directory for files of the run.
        shown: the files and directories that the program sees besides the system, by name below `inside`.
        command: the program and its arguments.
        environment: all its variables.
        writable: which of `shown` it may change; the first is its working directory.
        limits: the limits, as in recording.toml.

    Raises:
        DriverError: SET_UP if this machine cannot confine it.
    """
    base = inside(scratch)
    log = scratch / "log"
    (scratch / "root").mkdir(exist_ok=True)
    spec: dict[str, Any] = {
        "parent": os.getpid(),
        "isolation": isolation(),
        "root": str(scratch / "root"),
        "log": str(log),
        "command": list(command),
        "env": dict(environment),
        "cwd": f"{base}/{writable[0]}",
        "limits": dict(limits),
        "measured": [f"{base}/{name}" for name in writable],
    }
    spec |= _mounts(shown, writable) if isolation() == "namespaces" else _rules(scratch, shown, writable)
    start = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_ROOT)]
    with subprocess.Popen(
        start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={}, cwd="/"
    ) as process:
        try:
            answer, complaint = process.communicate(json.dumps(spec).encode())
        except BaseException:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    output = log.read_bytes().decode(errors="replace") if log.exists() else ""
    try:
        ended = json.loads(answer)
    except ValueError:
        ended = {"ended": "setup", "why": complaint.decode(errors="replace").strip().rpartition("\n")[2]}
    if ended["ended"] == "setup":
        raise error(Code.SET_UP, f"this machine cannot confine a setup.py: {ended['why']}", help=_ADVICE)
    return Ended(how=ended["ended"], code=ended.get("code", 0), output=output)


def _mounts(shown: Mapping[str, Path], writable: Sequence[str]) -> dict[str, Any]:
    """The contents of a root directory."""
    mounts: list[tuple[str, str, bool]] = []
    links: list[tuple[str, str]] = []
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            links.append((os.readlink(path), name))  # noqa: PTH115  (as it is)
        elif path.is_dir():
            mounts.append((name, name, False))
    mounts += [(name, name, False) for name in _SHARED if os.path.exists(name)]  # noqa: PTH110
    links += [("usr/bin", "/bin")]
    search = "/usr/bin:/bin"
    for program in facts()["programs"]["names"]:
        if found := shutil.which(program, path=search):
            mounts.append((os.path.realpath(found), f"/usr/bin/{program}", False))
    covered = [target for _, target, _ in mounts if target in _SYSTEM]
    for path in python_files():
        if not any(path.is_relative_to(directory) for directory in covered):
            mounts.append((str(path), str(path), False))
    mounts += [(str(source), f"{INSIDE}/{name}", name in writable) for name, source in shown.items()]
    empty = [("/tmp", "1777"), (f"{INSIDE}/home", "755"), ("/dev/shm", "1777")]  # noqa: S108  (in the new root)
    return {"mounts": mounts, "links": links, "empty": empty, "files": _FILES}


def _rules(scratch: Path, shown: Mapping[str, Path], writable: Sequence[str]) -> dict[str, Any]:
    """The paths that Landlock allows."""
    for name, source in shown.items():
        if source != scratch / name:
            if (scratch / name).is_dir():
                (scratch / name).rmdir()
            (scratch / name).symlink_to(source)
    (scratch / "home").mkdir(exist_ok=True)
    (scratch / "tmp").mkdir(exist_ok=True)
    programs = [shutil.which(name, path="/usr/bin:/bin") for name in facts()["programs"]["names"]]
    readable = [*_SYSTEM, *_SHARED, *_DEVICES, *map(str, python_files()), *(name for name in programs if name)]
    readable += [str(source) for name, source in shown.items() if name not in writable]
    changed = [*(str(shown[name]) for name in writable), str(scratch / "home"), str(scratch / "tmp"), "/dev/null"]
    return {"readable": readable, "writable": changed}
