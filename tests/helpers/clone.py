"""A driver that a test runs as its users do, away from the checkout, with a cache and a Bazel of its own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cells
from results import validate

from py_driver.matrix.configurations import Configuration
from py_driver.matrix.releases import Releases

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.fetch.store import Store

ROOT = Path(__file__).parents[2]
PROJECTS = Path(__file__).parents[1] / "e2e" / "projects"
SECONDS = 900
SHARED = ("bazel", "store", "venvs")
"""The parts of this user's cache that tests use."""
_ALWAYS = ("PATH", "RULES_TORCH_KERNELS_TESTS")

CPU = "torch213-cxx11-cpu-x86_64-linux"
CU130 = "torch213-cxx11-cu130-x86_64-linux"
ROCM = "torch213-cxx11-rocm72-x86_64-linux"
TWO = "torch213-*-{cpu,cu130}-*"
BINDING = 3  # actions of a source that sees the id: its text, that with the id, and its object
VARIANTS = [f"torch{t}-cxx11-{backend}-x86_64-linux" for t in ("213", "215") for backend in ("cpu", "cu130", "cu132")]
RELU = [*VARIANTS[:3], ROCM, *VARIANTS[3:]]
"""The default variants of examples/relu."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Driver:
    """A way to call the driver.

    Attributes:
        command: the command.
        root: its Bazel module.
        cache: its cache directory.
        output: Bazel's output user root.
        environ: further variables.
        bare: whether it gets only PATH and the mark of the tests from this process's environment.
    """

    command: tuple[str, ...]
    root: Path
    cache: Path
    output: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    bare: bool = False

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        base = {name: os.environ[name] for name in _ALWAYS} if self.bare else dict(os.environ)
        own = {
            "RULES_TORCH_KERNELS_CACHE": str(self.cache),
            "RULES_TORCH_KERNELS_OUTPUT_USER_ROOT": str(self.output),
        }
        return {**base, **own, **self.environ, **(extra or {})}

    def start(
        self,
        *args: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> subprocess.Popen[str]:
        """Start it as the leader of a process group; `within` is a command that runs commands."""
        return subprocess.Popen(
            [*within, *self.command, *map(str, args)],
            cwd=cwd or self.root,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self,
        *args: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
        code: int = 0,
        seconds: int = SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Run the driver and assert its exit code."""
        with self.start(*args, cwd=cwd, env=env, within=within) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        assert process.returncode == code, f"exit code {process.returncode}, not {code}:\n{err}\n{out[-4000:]}"
        validate(args, out)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def build(
        self,
        project: Path,
        *variants: str,
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
        jobs: int | None = None,
        remote_cache: str = "",
    ) -> Any:  # noqa: ANN401  (JSON)
        """Build; returns the output of `--json`."""
        options = [f"--variant={glob}" for glob in variants] + ([f"--jobs={jobs}"] if jobs else [])
        options += [f"--remote-cache={remote_cache}"] if remote_cache else []
        done = self.run("build", project, "--json", *options, env=env, within=within)
        built = json.loads(done.stdout)
        if records := os.environ.get("CELLS"):
            cells.record(Path(records), "built", [variant["variant"] for variant in built["variants"]], project.name)
            for variant, torch in cells.loaded(done.stderr).items():
                cells.record(Path(records), "loaded", [variant], f"{project.name}, torch {torch}")
        return built

    def bazel(self, *args: str, cwd: Path | None = None) -> str:
        """Run plain Bazel."""
        return self.run("bazel", "--", *args, cwd=cwd).stdout

    def runners(self, events: Path, *args: str) -> dict[str, int]:
        """Build with plain Bazel, which writes its events to a file; returns the number of actions of each runner."""
        self.bazel("build", f"--build_event_json_file={events}", *args)
        lines = [json.loads(line) for line in events.read_text().splitlines()]
        [metrics] = [line["buildMetrics"] for line in lines if "buildMetrics" in line]
        return {runner["name"]: runner["count"] for runner in metrics["actionSummary"]["runnerCount"]}

    def place(self, label: str, *options: str) -> Path:
        """The path of the single output of a target that plain Bazel has built with options."""
        [path] = self.bazel("cquery", *options, "--output=files", label).split()
        return self.root.joinpath(self.bazel("info", "execution_root").strip(), path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """A project that a driver has built.

    Attributes:
        driver: the driver.
        project: the project's directory.
        result: the output of `--json`.
    """

    driver: Driver
    project: Path
    result: Any

    @property
    def build(self) -> Path:
        return self.project / "build"


def another(driver: Driver, place: Path) -> Driver:
    """A driver without any result of an action, like on another machine."""
    links = {name: driver.cache / name for name in ("bazel", "store", "venvs", "tools")}
    cache = make_cache(place / "cache", links)
    environ = {"HOME": str(place)}
    return Driver(command=driver.command, root=driver.root, cache=cache, output=place / "output", environ=environ)


def copy_checkout(to: Path) -> None:
    """Copy the files of the checkout that git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def make_lean(manifest: Path) -> None:
    """Limit the manifest of examples/relu to two GPU architectures of each vendor."""
    text = manifest.read_text(encoding="utf-8")
    for key, archs in (("cuda-capabilities", '"8.0", "9.0+PTX"'), ("rocm-archs", '"gfx90a", "gfx1100"')):
        text, found = re.subn(rf"^{key} = .*", f"{key} = [{archs}]", text, flags=re.MULTILINE)
        assert found == 1
    manifest.write_text(text, encoding="utf-8")


def copy_project(source: Path, to: Path) -> Path:
    """Copy a project, without its builds."""
    shutil.copytree(source, to, ignore=shutil.ignore_patterns("build", "build-slices", "__pycache__", ".pytest_cache"))
    return to


def make_cache(to: Path, links: Mapping[str, Path]) -> Path:
    """A cache directory that shares parts with another one."""
    to.mkdir(parents=True)
    for name, target in links.items():
        target.mkdir(parents=True, exist_ok=True)
        (to / name).symlink_to(target)
    return to


def make_mirror(to: Path, store: Store, *, without: str = "") -> Path:
    """A mirror of what the variants of TWO need, out of a store that has it; less the archive of one name."""
    to.mkdir(parents=True)
    configurations = [
        Configuration(torch="2.13", abi="cxx11", backend=b, cpu="x86_64", os="linux") for b in ("cpu", "cu130")
    ]
    for entry in Releases().lock.entries_for(configurations):
        if entry.name != without:
            (to / entry.mirror_name).symlink_to(store.path(entry))
    return to


def digests(directory: Path, variants: Iterable[str] | None = None) -> dict[str, str]:
    """The SHA-256 of every file below a directory, by path; only of some of its subdirectories if they are named."""
    names = None if variants is None else set(variants)
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and (names is None or path.relative_to(directory).parts[0] in names)
    }


def action_counts(result: Any) -> tuple[int, int, int]:  # noqa: ANN401  (JSON)
    """The numbers of actions that ran, were shared and were cached, in a build's JSON."""
    counts = [variant["actions"] for variant in result["variants"]]
    return (sum(c["run"] for c in counts), sum(c["shared"] for c in counts), sum(c["cached"] for c in counts))


def planned(result: Any) -> tuple[int, int, int]:  # noqa: ANN401  (JSON)
    """The expected numbers of actions to run, to be shared and to be cached, in a build's JSON."""
    plan = result["plan"]
    return plan["run"], plan["shared"], plan["cached"]


def cuda_actions(archs: int) -> int:
    """The actions of a CUDA source: three for each architecture, and four more."""
    return 3 * archs + 4


def torch_actions(archs: int) -> int:
    """The actions of a CUDA source in a section with torch: three for each architecture, and six more."""
    return 3 * archs + 6


def hip_actions(archs: int) -> int:
    """The actions of a HIP source: four for each architecture, and three more."""
    return 4 * archs + 3


def wait_for_process(*words: str) -> int:
    """Wait for a process whose command line has all words; returns its id."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().decode(errors="replace")
            except OSError:
                continue
            if all(word in command for word in words) and int(path.parent.name) != os.getpid():
                return int(path.parent.name)
        time.sleep(0.01)
    raise TimeoutError(words)


def remove(base: Path) -> None:
    """Remove a directory with Bazel's output bases in it."""
    stop_servers(base.glob("*/output/*"))
    rm = ["rm", "-rf", str(base)]  # there are a million files
    if subprocess.run(rm, check=False, capture_output=True).returncode:  # root may remove what nobody may write
        subprocess.run(["chmod", "-R", "u+w", str(base)], check=False, capture_output=True)
        subprocess.run(rm, check=False, capture_output=True)


def _runs(command: Path) -> bool:
    with suppress(OSError):  # it has ended
        return bool(command.read_bytes())
    return False


def stop_servers(output_bases: Iterable[Path]) -> None:
    """End the running Bazel servers of output bases, and wait for them."""
    commands = []
    for output_base in output_bases:
        file = output_base / "server" / "server.pid.txt"
        if file.is_file():
            command = Path("/proc", file.read_text().strip(), "cmdline")
            if command.exists() and os.fsencode(output_base) in command.read_bytes():
                os.kill(int(command.parent.name), signal.SIGTERM)
                commands.append(command)
    deadline = time.monotonic() + 60
    while any(map(_runs, commands)) and time.monotonic() < deadline:
        time.sleep(0.05)


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
