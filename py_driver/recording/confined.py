"""The program that runs another program confined: in its own namespaces or, without these, by Landlock and seccomp.

`sandbox.run` starts it with the specification on stdin. It prints the outcome:
`{"ended": "exit", "code": 0}`.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from py_driver.recording import landlock, namespaces

if TYPE_CHECKING:
    from collections.abc import Mapping

_SET_PDEATHSIG: Final = 1
_SET_DUMPABLE: Final = 4
_SET_CHILD_SUBREAPER: Final = 36
_SET_NO_NEW_PRIVS: Final = 38

_INTERVAL: Final = 0.02
_EACH_SIZE: Final = 25
"""How many checks of processes there are for each check of file sizes."""

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Run the program in the specification on stdin."""
    spec = json.load(sys.stdin)
    _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != spec["parent"]:
        return  # the driver ended before this line
    answer = _in_namespaces(spec) if spec["isolation"] == "namespaces" else _by_landlock(spec)
    sys.stdout.write(json.dumps(answer))


def _in_namespaces(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Run in namespaces; when their first process ends, the kernel ends the others."""
    namespaces.separate()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL)
            log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            has_proc = namespaces.enter(Path(spec["root"]), spec)
            answer = _supervised(spec, log, Path("/proc") if has_proc else None)
        except OSError as problem:
            answer = {"ended": "setup", "why": str(problem)}
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"ended": "memory"}


def _by_landlock(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Run under Landlock; this process adopts processes that the program leaves behind, and ends them."""
    _libc.prctl(_SET_CHILD_SUBREAPER, 1)
    _libc.prctl(_SET_PDEATHSIG, signal.SIGTERM)  # so that the program's processes end with the driver, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        return _supervised(spec, log, Path("/proc"))
    finally:
        _end_descendants()


def _end_descendants() -> None:
    """End all descendants of this process."""
    while children := _descendants(os.getpid()):
        for process in children:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_INTERVAL)


def _supervised(spec: Mapping[str, Any], log: int, proc: Path | None) -> dict[str, Any]:
    """Start the program, and wait until it ends or passes a limit."""
    program = os.fork()
    if program == 0:
        _start(spec, log, counted=proc is not None)
    limits = spec["limits"]
    deadline = time.monotonic() + limits["seconds"]
    looks = 0
    while True:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == program:
                    return {"ended": "exit", "code": os.waitstatus_to_exitcode(ended[1])}
        if time.monotonic() > deadline:
            return {"ended": "time"}
        if proc is not None:
            processes = _all(proc) if spec["isolation"] == "namespaces" else _descendants(os.getpid())
            if len(processes) > limits["processes"]:
                return {"ended": "processes"}
            most = limits["memory-bytes"]
            if sum(_resident(proc, each) for each in processes) > most < sum(_own(proc, each) for each in processes):
                return {"ended": "memory"}
        looks += 1
        if looks % _EACH_SIZE == 0 and sum(map(_size, spec["measured"])) > limits["disk-bytes"]:
            return {"ended": "disk"}
        time.sleep(_INTERVAL)


def _start(spec: Mapping[str, Any], log: int, *, counted: bool) -> NoReturn:
    """Become the program, with its limits; the system counts processes if the supervisor cannot."""
    try:
        limits = spec["limits"]
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.closerange(3, 1 << 16)
        os.setsid()
        _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL)
        for kind, value in (
            (resource.RLIMIT_AS, limits["address-bytes"]),
            (resource.RLIMIT_FSIZE, limits["file-bytes"]),
            (resource.RLIMIT_NOFILE, limits["open-files"]),
            (resource.RLIMIT_CORE, 0),
            *(() if counted else [(resource.RLIMIT_NPROC, limits["processes"])]),
        ):
            _, hard = resource.getrlimit(kind)
            lowered = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (lowered, lowered))
        _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if spec["isolation"] == "landlock":
            landlock.confine(spec["readable"], spec["writable"])
        landlock.forbid_network()
        os.umask(0o022)
        os.chdir(spec["cwd"])
        os.execve(spec["command"][0], spec["command"], spec["env"])  # noqa: S606  (no shell on purpose)
    except OSError as problem:
        os.write(2, f"{problem}\n".encode())
    os._exit(127)


def _all(proc: Path) -> list[int]:
    """The processes of the namespace, without the first."""
    return [int(name) for name in os.listdir(proc) if name.isdigit() and name != "1"]  # noqa: PTH208  (often called)


def _descendants(ancestor: int) -> list[int]:
    """The children of a process, their children, and so on."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                state, parent = (
                    Path("/proc", name, "stat")
                    .read_text(encoding="utf-8", errors="replace")
                    .rpartition(")")[2]
                    .split()[:2]
                )
                if state != "Z":
                    parents.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _resident(proc: Path, process: int) -> int:
    """The memory of a process, in bytes; shared pages count fully."""
    try:
        return int((proc / str(process) / "statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0  # it has ended


def _own(proc: Path, process: int) -> int:
    """The memory of a process, in bytes, with its share of shared pages; slow to determine."""
    try:
        text = (proc / str(process) / "smaps_rollup").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def _size(path: str) -> int:
    """The size of the files below a directory, in bytes."""
    total = 0
    for parent, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118  (as walk has it)
    return total
