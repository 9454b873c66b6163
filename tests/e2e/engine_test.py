"""Several workers behind BuildGrid: what runs where, and what happens when one of the machines fails.

A build either ends with the bytes of one that ran here, or says why it does not, in a time that the configuration of
the scheduler bounds. The counts and the seconds stand in docs/remote.md.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import BINDING, CPU, CU130, PROJECTS, another, copy_project, cuda_actions, digests
from engine import Engine, Programs, install

from py_driver.output import Output

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping

    from clone import Driver

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_SOON = {"keepalive-timeout: 60": "keepalive-timeout: 5"}
"""A scheduler that gives the actions of a silent worker to another one soon."""

_IMPATIENT = {
    "job-max-age: { minutes: 5 }": "job-max-age: { seconds: 2 }",
    "queue-timeout-period: { seconds: 10 }": "queue-timeout-period: { seconds: 1 }",
}
"""A scheduler that soon gives up to wait for a worker."""

_PROGRAMS = 3
_ACTIONS = cuda_actions(1) + BINDING + 8
"""What runs of CU130, besides the rules' own programs: see remote_test.py."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Client:
    """A machine that builds on an engine, and one that builds the same by itself.

    Attributes:
        driver: of the first.
        project: of the first.
        other: the driver of the second.
        copy: the project of the second.
    """

    driver: Driver
    project: Path
    other: Driver
    copy: Path

    def edit(self, name: str) -> None:
        """Change a CUDA source in both: each action of it runs again."""
        for project in (self.project, self.copy):
            source = project / "csrc" / "two.cu"
            shutil.copy(PROJECTS / "tiny" / "csrc" / "two.cu", source)
            with source.open("a") as text:
                text.write(f"\n__global__ void {name}(int* out) {{ *out = 1; }}\n")

    def start(self, engine: Engine) -> subprocess.Popen[str]:
        """Begin to build on the engine."""
        return self.driver.start("build", self.project, f"--variant={CU130}", "--json", *engine.options)

    def same(self) -> bool:
        """Whether the bytes are those of a build without an engine."""
        self.other.build(self.copy, CU130)
        return digests(self.project / "build") == digests(self.copy / "build")


@pytest.fixture(scope="module")
def client(clone: Driver, base: Path) -> Client:
    places = [base / "engine" / name for name in ("there", "here")]
    for directory in places:
        directory.mkdir(parents=True)
    there, here = (
        (another(clone, directory), copy_project(PROJECTS / "tiny", directory / "tiny")) for directory in places
    )
    (places[0] / ".config" / "rules_torch_kernels").mkdir(parents=True)
    settings = '[remote.exec-properties]\nOSFamily = "linux"\nISA = "x86-64"\n'
    (places[0] / ".config" / "rules_torch_kernels" / "config.toml").write_text(settings)
    return Client(driver=there[0], project=there[1], other=here[0], copy=here[1])


@pytest.fixture(scope="module")
def programs() -> Programs:
    """What an engine runs; a test fails if it cannot be fetched."""
    return install(Output())


@pytest.fixture(scope="module")
def storage(programs: Programs) -> Iterator[Engine]:
    """A storage that all engines have: what it has lost, Bazel would make anew."""
    with _directory() as place:
        engine = Engine(place=place, programs=programs)
        engine.start_storage()
        yield engine
        engine.close()


@pytest.fixture
def begin(storage: Engine) -> Iterator[Callable[..., Engine]]:
    """Start an engine with some workers, by name; with other texts in its units."""
    with _directory() as place, ExitStack() as stack:

        def start(*workers: str, changes: Mapping[str, str] = _SOON) -> Engine:
            engine = Engine(place=place, programs=storage.programs, changes=changes, storage=storage.storage)
            stack.callback(engine.close)
            engine.start_database()
            engine.start_scheduler()
            for name in workers:
                engine.start_worker(name)
            return engine

        yield start


@contextmanager
def _directory() -> Iterator[Path]:
    """A directory with a short name."""
    place = Path(tempfile.mkdtemp(prefix="engine-"))
    yield place
    shutil.rmtree(place)


def _until_at_work(engine: Engine, name: str = "") -> None:
    end = time.monotonic() + 300
    while not any(name in worker for worker in engine.at_work()):
        assert time.monotonic() < end


def _tell(engine: Engine, began: float, said: str = "") -> None:
    """Print the facts that docs/remote.md has."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition("::")[2]
    print(f"\n{test}: {time.monotonic() - began:.0f} s, {engine.ran()}, tries {max(engine.tries(), default=0)}", said)  # noqa: T201


def test_two_workers(client: Client, begin: Callable[..., Engine], base: Path, clone: Driver) -> None:
    engine, began = begin("one", "two"), time.monotonic()
    client.edit("two_workers")
    with client.start(engine) as process:
        _, err = process.communicate()
    assert process.returncode == 0, err
    ran = engine.ran()
    _tell(engine, began)
    assert sum(ran.values()) == _ACTIONS + _PROGRAMS
    assert min(ran["one"], ran["two"]) > 0
    assert set(engine.tries()) == {1}
    assert client.same()
    second = base / "engine" / "second"
    second.mkdir()
    driver, project = another(clone, second), copy_project(client.copy, second / "tiny")
    (second / ".config").symlink_to(client.project.parent / ".config")
    found = driver.run("build", project, f"--variant={CU130}", "--json", *engine.options)
    assert '"run": 0' in found.stdout
    assert engine.ran() == ran
    assert digests(project / "build") == digests(client.project / "build")


def test_a_worker_goes_down(client: Client, begin: Callable[..., Engine]) -> None:
    engine, began = begin("one", "two"), time.monotonic()
    client.edit("goes_down")
    with client.start(engine) as process:
        _until_at_work(engine, "one")
        engine.stop("one")
        _, err = process.communicate()
    _tell(engine, began)
    assert process.returncode == 0, err
    assert client.same()


def test_the_scheduler_restarts(client: Client, begin: Callable[..., Engine]) -> None:
    engine, began = begin("one", "two"), time.monotonic()
    client.edit("scheduler")
    with client.start(engine) as process:
        _until_at_work(engine)
        engine.stop("scheduler")
        time.sleep(3)
        engine.start_scheduler()
        _, err = process.communicate()
    _tell(engine, began)
    assert process.returncode == 0, err
    assert client.same()


def test_the_database_restarts(client: Client, begin: Callable[..., Engine]) -> None:
    engine, began = begin("one", "two"), time.monotonic()
    client.edit("database")
    with client.start(engine) as process:
        _until_at_work(engine)
        engine.stop("database")
        time.sleep(3)
        engine.start_database()
        _, err = process.communicate()
    _tell(engine, began)
    assert process.returncode == 0, err
    assert client.same()


@pytest.mark.parametrize("wrong", [False, True])
def test_nobody_to_work(client: Client, begin: Callable[..., Engine], *, wrong: bool) -> None:
    """No worker, or one of another kind: the build ends when the scheduler gives up, and works once there is one."""
    engine = begin(changes=_IMPATIENT)
    if wrong:
        engine.start_worker("wrong", {"OSFamily=linux": "OSFamily=darwin"})
    began = time.monotonic()
    client.edit(f"nobody_{wrong}")
    with client.start(engine) as process:
        _, err = process.communicate()
    _tell(engine, began)
    assert process.returncode == 4
    assert "error[E301]: no worker of the executor accepts an action" in err
    assert "[remote.exec-properties]" in err
    assert engine.ran() == {}
    engine.start_worker("one")
    with client.start(engine) as process:
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert engine.ran().keys() == {"one"}
    assert client.same()


@pytest.mark.parametrize("full", ["disk", "quota"])
def test_a_storage_without_space(clone: Driver, base: Path, programs: Programs, full: str) -> None:
    """It has 100 MB, and the toolchain alone is larger; a build with another storage then succeeds."""
    place = base / "engine" / full
    place.mkdir()
    driver, project = another(clone, place), copy_project(PROJECTS / "tiny", place / "tiny")
    within = "mkdir -p buildbox-storage; mount -t tmpfs -o size=100m tmpfs buildbox-storage" if full == "disk" else ""
    changes = {} if full == "disk" else {"--quota-high=200G": "--quota-high=100M"}
    for space in (False, True):
        with _directory() as here:
            engine = Engine(place=here, programs=programs, changes={} if space else changes)
            try:
                engine.start_storage("" if space else within)
                engine.start_database()
                engine.start_scheduler()
                engine.start_worker("one")
                began = time.monotonic()
                with driver.start("build", project, f"--variant={CPU}", *engine.options) as process:
                    _, err = process.communicate()
                _tell(engine, began, err[-3000:])
            finally:
                engine.close()
        assert process.returncode == (0 if space else 4), err
        assert (project / "build").exists() == space
    local = another(clone, place / "local")
    copy = copy_project(PROJECTS / "tiny", place / "local" / "tiny")
    local.build(copy, CPU)
    assert digests(copy / "build") == digests(project / "build")
