"""`driver cache serve`: a remote cache for this machine, and with bubblewrap an executor too."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tomli

from py_driver.bazel.sandbox import worker_files
from py_driver.errors import Code, error
from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.store import cache_root, storage_errors
from py_driver.fetch.unpacking import Selection, unpack

if TYPE_CHECKING:
    from py_driver.output import Output

_RESOURCE: Final = Path(__file__).parent / "resources" / "buildbox.toml"
_SERVER: Final = "buildbox-casd"
_HOST: Final = "127.0.0.1"
_START_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """How to serve.

    Attributes:
        port: to listen on, of the loopback interface.
        directory: for what is kept; made if it does not exist.
        size: what it may grow to, in gigabytes.
        execute: whether to run steps too.
        jobs: how many of them at once.
    """

    port: int
    directory: Path
    size: int
    execute: bool
    jobs: int


def programs(name: str, output: Output) -> Path:
    """The directory with programs of a package; fetched if it is not there.

    Args:
        name: `buildbox`, the server, or `bubblewrap`, with which it runs steps.
        output: where progress is shown.

    Raises:
        DriverError: see `Fetcher.fetch` and `unpack`.
    """
    table = tomli.loads(_RESOURCE.read_text(encoding="utf-8"))[name]
    inside = table.pop("inside")
    entry = parse_entry(table)
    place = cache_root() / "tools" / f"{name}-{entry.sha256[:12]}"
    if not place.is_dir():
        with output.task(f"fetching {name}") as task, storage_errors(place):
            archive = Fetcher().fetch(entry).path
            partial = place.with_name(f"{place.name}.{os.getpid()}")
            unpack(archive, entry, partial, Selection(include=(inside,), strip_prefix=inside))
            for program in partial.iterdir():
                program.chmod(0o755)
            if not place.is_dir():
                partial.rename(place)
            shutil.rmtree(partial, ignore_errors=True)
            task.done("done")
    return place


def command(serving: Serving, place: Path) -> list[str]:
    """The server's command line.

    Args:
        serving: how to serve.
        place: where the programs are.
    """
    found = [str(place / _SERVER), f"--bind={_HOST}:{serving.port}", f"--quota-high={serving.size}G"]
    if serving.execute:
        found += [f"--jobs={serving.jobs}", f"--buildbox-run={place / 'buildbox-run'}"]
        found += [f"--runner-arg=--ro-bind-mount={os.path.realpath(path)}:{path}" for path in worker_files()]
    return [*found, str(serving.directory.resolve())]


def serve(serving: Serving, output: Output) -> int:
    """Serve until the server ends or this process is told to; the server's exit code.

    Raises:
        DriverError: SET_UP if the port is taken or the server does not start; see `programs`.
        KeyboardInterrupt: Ctrl-C, or SIGTERM; the server has ended.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, serving.port))
        except OSError as wrong:
            advice = "name another with --port"
            raise error(Code.SET_UP, f"port {serving.port} cannot be used: {wrong.strerror}", help=advice) from None
    place = programs("buildbox", output)
    path = f"{place}:{os.environ.get('PATH', os.defpath)}"
    if serving.execute and not shutil.which("bwrap"):
        path = f"{programs('bubblewrap', output)}:{path}"
    with storage_errors(serving.directory):
        serving.directory.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": path, "HOME": str(Path.home())}
    with subprocess.Popen(command(serving, place), env=environment, stdin=subprocess.DEVNULL) as process:
        try:
            _wait(process, serving.port)
            address = f"grpc://{_HOST}:{serving.port}"
            option = "--remote-executor" if serving.execute else "--remote-cache"
            output.say(f"serving {serving.directory} at {address}: driver build {option} {address}")
            return process.wait()
        finally:
            process.terminate()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the server takes connections."""
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex((_HOST, port)) == 0:
                return
        time.sleep(_POLL_SECONDS)
    said = "ended" if process.poll() is not None else f"took no connection in {_START_SECONDS:.0f} s"
    raise error(Code.SET_UP, f"the server {said}", help="what it says stands above")
