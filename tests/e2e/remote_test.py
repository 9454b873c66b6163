"""A real remote cache and executor: what one clone built, another takes; what an executor runs has the same bytes."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from clone import BINDING, CU130, PROJECTS, TWO, Driver, copy_project, cuda_steps, digests, make_cache, steps

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Built

pytestmark = pytest.mark.e2e


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def serve(relu: Built, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start a server of the driver's own with some options; its address."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> str:
        port = _free_port()
        place = str(tmp_path / f"served-{port}")
        process = relu.driver.start("cache", "serve", "--port", str(port), "--directory", place, *options)
        started.append(process)
        said = ""
        while "serving" not in said:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line, said
            said += line
        address = f"grpc://127.0.0.1:{port}"
        assert f"at {address}: " in said
        return address

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)


def _another(driver: Driver, place: Path) -> Driver:
    """A driver that has no result of any action, as on a machine of its own."""
    links = {name: driver.cache / name for name in ("bazel", "store", "venvs", "tools")}
    cache = make_cache(place / "cache", links)
    environ = {"HOME": str(place)}
    return Driver(command=driver.command, root=driver.root, cache=cache, output=place / "output", environ=environ)


def test_what_one_clone_built_another_takes(relu: Built, serve: Callable[..., str], base: Path) -> None:
    address = serve()
    results, files = [], []
    for name in ("one", "two/of/more/depth"):
        place = base / "remote" / name
        place.mkdir(parents=True)
        project = copy_project(PROJECTS / "tiny", place / "tiny")
        driver = _another(relu.driver, place)
        results.append(driver.build(project, TWO, remote_cache=address))
        files.append(digests(project / "build"))
    all_steps = 1 + cuda_steps(1) + 2 * BINDING
    assert steps(results[0]) == (all_steps, 0, 0)
    assert steps(results[1]) == (0, 0, all_steps)
    assert files[0] == files[1]


def test_an_executor_makes_the_same_bytes(relu: Built, serve: Callable[..., str], tmp_path: Path) -> None:
    options = [f"--remote_executor={serve('--execute', '--jobs=2')}", "--platform_suffix=remote"]
    label = f"//examples/relu:{CU130}"
    ran = relu.driver.runners(tmp_path / "events.json", *options, label)
    # Besides the steps: the step program itself, the id and its objects, link, check and variant.
    assert ran["remote"] >= cuda_steps(6) + BINDING + 6
    assert ran.keys() <= {"remote", "internal", "total"}
    assert digests(relu.driver.place(label, *options)) == digests(relu.build / CU130)


def test_a_port_that_is_taken(relu: Built) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = relu.driver.run("cache", "serve", "--port", str(port), code=4)
    assert f"port {port} cannot be used: Address already in use" in refused.stderr


def test_a_server_that_is_not_there(relu: Built, base: Path) -> None:
    """Bazel says so and builds by itself: nothing is lost but the time."""
    project = copy_project(PROJECTS / "tiny", base / "nobody")
    done = relu.driver.run("build", project, f"--variant={TWO}", f"--remote-cache=grpc://127.0.0.1:{_free_port()}")
    assert "warning: Remote Cache: UNAVAILABLE" in done.stderr
