"""`driver cache serve`: a remote cache for this machine, and with bubblewrap an executor too."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tomli

from py_driver.bazel.relay import relay
from py_driver.bazel.remote import SOCKET_LENGTH
from py_driver.bazel.sandbox import worker_files
from py_driver.cache.stuck import waiting_children
from py_driver.errors import Code, error
from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.unpacking import Selection, unpack
from py_driver.resources import resource
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.locks import try_to_take
from py_driver.system.scratch import scratch, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.output import Output

_SERVER: Final = "buildbox-casd"
_SOCKET: Final = "socket"
_LOCK: Final = "lock"
_START_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 10.0
"""The time between checks for stuck children: longer than a working child needs for a lock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """The settings of a server.

    Attributes:
        directory: the directory for the results and the socket; created if it does not exist.
        port: a port on the loopback interface for further processes of this user; None for none.
        size: the maximum size, in gigabytes.
        execute: whether to run actions, too.
        jobs: the number of concurrent actions.
    """

    directory: Path
    port: int | None
    size: int
    execute: bool
    jobs: int


def programs(name: str, output: Output) -> Path:
    """The directory with the programs of a package, fetched if it does not exist.

    Args:
        name: `buildbox`, the server, or `bubblewrap`, which runs its actions.
        output: where progress is shown.

    Raises:
        DriverError: see `Fetcher.fetch` and `unpack`.
    """
    table = tomli.loads(resource("buildbox.toml"))[name]
    inside = table.pop("inside")
    entry = parse_entry(table)
    directory = cache_root() / "tools" / f"{name}-{entry.sha256[:12]}"
    if not directory.is_dir():
        with output.task(f"fetching {name}") as task, storage_errors(directory):
            archive = Fetcher().fetch(entry).path
            directory.parent.mkdir(parents=True, exist_ok=True)
            with scratch(directory.parent) as here:
                fresh = here / directory.name
                unpack(archive, entry, fresh, Selection(include=(inside,), strip_prefix=inside))
                for program in fresh.iterdir():
                    program.chmod(0o755)
                settle(fresh, directory)
            task.done("done")
    return directory


def command(serving: Serving, directory: Path) -> list[str]:
    """The server's command line.

    Args:
        serving: how to serve.
        directory: the directory of the programs.
    """
    path = serving.directory / _SOCKET
    found = [
        str(directory / _SERVER),
        f"--bind=unix:{path}",
        "--unix-socket-mode=0600",
        f"--quota-high={serving.size}G",
    ]
    if serving.execute:
        found += [f"--jobs={serving.jobs}", f"--buildbox-run={directory / 'buildbox-run'}"]
        found += [f"--runner-arg=--ro-bind-mount={os.path.realpath(path)}:{path}" for path in worker_files()]
    return [*found, str(serving.directory)]


def serve(serving: Serving, output: Output) -> int:
    """Serve until the server ends or this process is interrupted; returns the server's exit code.

    Whoever reaches the server can change its results, and with `execute` run programs as this user. So it listens on a
    socket in a directory that only this user can enter; on a port, a relay rejects other users.

    Raises:
        DriverError: SET_UP if the port is taken, the socket's path is too long, another server has the directory or the
            server does not start; PERMISSION if others may enter the directory; see `programs`.
        KeyboardInterrupt: Ctrl-C, or SIGTERM; the server was ended.
    """
    # Whoever can change a link to the directory could otherwise redirect it later.
    serving = replace(serving, directory=serving.directory.resolve())
    path = serving.directory / _SOCKET
    if len(os.fsencode(path)) > SOCKET_LENGTH:
        message = f"the path of the socket would be longer than {SOCKET_LENGTH} bytes: {path}"
        raise error(Code.SET_UP, message, help="name a directory with a shorter path with --directory")
    with _alone(serving.directory) as lock, ExitStack() as stack:
        path.unlink(missing_ok=True)  # of a server that was killed
        if serving.port is not None:
            _listen(stack, path, serving.port)
        directory = programs("buildbox", output)
        search = f"{directory}:{os.environ.get('PATH', os.defpath)}"
        if serving.execute and not shutil.which("bwrap"):
            search = f"{programs('bubblewrap', output)}:{search}"
        stack.callback(path.unlink, missing_ok=True)
        line, environment = command(serving, directory), {"PATH": search, "HOME": str(Path.home())}
        with subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL, pass_fds=[lock]) as process:
            try:
                _wait(process, path)
                output.say(_said(serving, path))
                return watch(process, output)
            finally:
                process.terminate()
                process.wait()


def watch(process: subprocess.Popen[bytes], output: Output) -> int:
    """Wait for the server's end, and kill children that are stuck; returns the server's exit code.

    Args:
        process: the server.
        output: where to report each such child.
    """
    waiting: dict[int, int] = {}
    while True:
        try:
            return process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            before, waiting = waiting, waiting_children(process.pid)
        for child, ticks in waiting.items():
            if before.get(child) == ticks:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
                output.say(f"note: process {child} of the server was stuck waiting for a lock and was killed")


def _said(serving: Serving, path: Path) -> str:
    option = "--remote-executor" if serving.execute else "--remote-cache"
    also = "" if serving.port is None else f", and to processes of this user at grpc://127.0.0.1:{serving.port}"
    return f"serving {serving.directory} at unix:{path}{also}: driver build {option} {shlex.quote(f'unix:{path}')}"


@contextmanager
def _alone(directory: Path) -> Iterator[int]:
    """Lock the directory for a server; both this process and the server hold the lock."""
    with storage_errors(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = directory.stat()
        if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
            advice = f"chmod 700 {shlex.quote(str(directory))}, or name another with --directory"
            message = f"other users can enter {directory}, and change the results there"
            raise error(Code.PERMISSION, message, help=advice)
        lock = os.fdopen(os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b")
    with lock:
        if not try_to_take(lock):
            advice = "use that server, or another directory with --directory"
            raise error(Code.SET_UP, f"another server already serves {directory}", help=advice)
        yield lock.fileno()


def _listen(stack: ExitStack, path: Path, port: int) -> None:
    """Listen on a port, until the stack ends."""
    try:
        stack.enter_context(relay(str(path), port))
    except OSError as wrong:
        advice = "name another with --port"
        raise error(Code.SET_UP, f"port {port} cannot be used: {wrong.strerror}", help=advice) from None


def _wait(process: subprocess.Popen[bytes], path: Path) -> None:
    """Wait until the server accepts connections."""
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)) == 0:
                return
        time.sleep(_POLL_SECONDS)
    problem = "ended" if process.poll() is not None else f"accepted no connection in {_START_SECONDS:.0f} s"
    raise error(Code.SET_UP, f"the server {problem}", help="its output is above")
