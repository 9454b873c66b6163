"""What the end-to-end tests share: a clone of the checkout, an installed wheel, and what each has built."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import venv
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import (
    CU130,
    PROJECTS,
    ROCM,
    SHARED,
    TWO,
    Built,
    Driver,
    copy_checkout,
    copy_project,
    make_cache,
    make_lean,
    make_mirror,
    remove,
)
from hostile import mounts_of_our_own, poison, set_traps, within

from py_driver.fetch.store import Store
from py_driver.system.cache import CACHE_VARIABLE, cache_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the clone, and those beside them in a file that have no expensive fixture."""
    own = [{"clone", "installed"}.intersection(getattr(item, "fixturenames", ())) for item in items]
    files = {item.path for item, names in zip(items, own, strict=True) if "clone" in names}
    for item, names in zip(items, own, strict=True):
        if "clone" in names or (not names and item.path in files):
            item.add_marker(pytest.mark.cloned)


@pytest.fixture(scope="session")
def base() -> Iterator[Path]:
    """A directory for all of this run, not in /tmp: Bazel's sandbox hides that."""
    place = cache_root() / "e2e"
    if place.is_dir():
        for old in place.iterdir():
            if old.name.isdigit() and not Path("/proc", old.name).exists():
                remove(old)
    base = place / str(os.getpid())
    base.mkdir(parents=True)
    yield base
    remove(base)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, with the Python packages that were installed before."""
    made = make_cache(tmp_path / "cache", {name: cache_root() / name for name in ("venvs", "build-requirements")})
    monkeypatch.setenv(CACHE_VARIABLE, str(made))
    return made


@pytest.fixture(scope="session")
def pristine(base: Path) -> Path:
    """The checkout as it was when the tests began, copied; nothing writes there."""
    copy_checkout(base / "pristine")
    return base / "pristine"


def _links(*without: str) -> dict[str, Path]:
    return {name: cache_root() / name for name in SHARED if name not in without}


@pytest.fixture(scope="session")
def clone(base: Path, pristine: Path) -> Driver:
    """The checkout, copied: nothing is built in it yet, but archives are in the cache if they ever were."""
    here = base / "clone"
    root = shutil.copytree(pristine, here / "repository")
    cache = make_cache(here / "cache", _links())
    return Driver(command=(str(root / "driver"),), root=root, cache=cache, output=here / "output")


@pytest.fixture(scope="session")
def relu(clone: Driver) -> Built:
    """examples/relu, built cold in the clone: all default variants."""
    project = clone.root / "examples" / "relu"
    return Built(driver=clone, project=project, result=clone.build(project))


@pytest.fixture(scope="session")
def lean(clone: Driver, relu: Built) -> Built:
    """examples/relu for two GPU architectures of each maker, built in the clone: to compare bytes with."""
    project = copy_project(relu.project, relu.project.with_name("lean"))
    make_lean(project / "build.toml")
    clone.run("gen", project)
    return Built(driver=clone, project=project, result=clone.build(project, TWO, ROCM))


@pytest.fixture(scope="session")
def installed(base: Path, pristine: Path) -> Driver:
    """The driver installed from the checkout's wheel, with an empty environment: not even a HOME."""
    here = base / "i"
    venv.create(here / "venv", with_pip=True)
    pip = [str(here / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(pristine)], check=True)
    [package] = (here / "venv").glob("lib/python*/site-packages/py_driver")
    return Driver(
        command=(str(here / "venv" / "bin" / "driver"),),
        root=package / "module",
        cache=make_cache(here / "cache", _links()),
        output=here / "output",
        bare=True,
    )


@pytest.fixture(scope="session")
def alone(installed: Driver, pristine: Path, base: Path) -> Built:
    """What `lean` is, copied alone to a deeper directory of another name, built cold by the installed driver."""
    project = copy_project(pristine / "examples" / "relu", base / "a b" / "deeper" / "than" / "before" / "my-relu")
    make_lean(project / "build.toml")
    return Built(driver=installed, project=project, result=installed.build(project, TWO))


@pytest.fixture(scope="session")
def tiny(installed: Driver, alone: Built, base: Path) -> Built:
    """A project that compiles in seconds, built by the installed driver where the toolchains are there already."""
    assert alone.build.is_dir()
    project = copy_project(PROJECTS / "tiny", base / "tiny")
    return Built(driver=installed, project=project, result=installed.build(project, TWO))


@pytest.fixture(scope="session")
def universal(installed: Driver, base: Path) -> Built:
    """A project without a compiled part."""
    project = copy_project(PROJECTS / "universal", base / "universal")
    return Built(driver=installed, project=project, result=installed.build(project))


@pytest.fixture(scope="session")
def store(alone: Built) -> Store:
    """The archives of this user, among them what `alone` needs."""
    assert (alone.build / CU130).is_dir()
    return Store(cache_root())


@pytest.fixture
def empty(installed: Driver, base: Path, tmp_path: Path) -> Driver:
    """The installed driver with an empty store, but with its workspaces: repositories that were made are there."""
    links = {**_links("store"), "workspaces": installed.cache / "workspaces"}
    cache = make_cache(base / "caches" / tmp_path.name, links)
    return Driver(command=installed.command, root=installed.root, cache=cache, output=installed.output, bare=True)


@pytest.fixture
def mirror(store: Store, tmp_path: Path) -> Path:
    """A directory with all archives that the variants of TWO need."""
    return make_mirror(tmp_path / "mirror", store)


@pytest.fixture(scope="session")
def traps(base: Path) -> Path:
    """Tools, headers, modules and libraries that no build may touch."""
    return set_traps(base / "traps")


@pytest.fixture(scope="session")
def hostile(clone: Driver, traps: Path, base: Path) -> Built:
    """What `lean` is, built cold by the clone on a machine that is set up against it."""
    here = base / "hostile"
    cache = make_cache(here / "cache", _links())
    environ = poison(traps, here, os.environ["PATH"])
    driver = Driver(command=clone.command, root=clone.root, cache=cache, output=here / "output", environ=environ)
    project = copy_project(clone.root / "examples" / "relu", here / "relu")
    make_lean(project / "build.toml")
    return Built(driver=driver, project=project, result=driver.build(project, TWO, ROCM, within=within()))


@pytest.fixture(scope="session")
def namespace() -> list[str]:
    """A command that runs a shell command with mounts of its own."""
    command = mounts_of_our_own()
    if command is None:
        pytest.skip("this user may not have mounts of their own (`unshare --mount` fails)")
    return command


@pytest.fixture
def serve(clone: Driver, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start a server of the driver's own with some options; its address."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> str:
        place = tmp_path / f"served-{len(started)}"
        process = clone.start("cache", "serve", "--directory", place, *options)
        started.append(process)
        said = ""
        while "serving" not in said:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line, said
            said += line
        address = f"unix:{place}/socket"
        assert f"at {address}" in said
        return address

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
