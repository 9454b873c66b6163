"""A real remote cache and executor: what one clone built, another takes; what an executor runs has the same bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from clone import (
    BINDING,
    CPU,
    CU130,
    PROJECTS,
    VARIANTS,
    Driver,
    action_counts,
    another,
    copy_project,
    cuda_actions,
    digests,
    free_port,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clone import Built

pytestmark = pytest.mark.e2e


def test_what_one_clone_built_another_takes(clone: Driver, serve: Callable[..., str], base: Path) -> None:
    address = serve()
    results, files = [], []
    for name in ("one", "two/of/more/depth"):
        place = base / "remote" / name
        place.mkdir(parents=True)
        project = copy_project(PROJECTS / "tiny", place / "tiny")
        driver = another(clone, place)
        results.append(driver.build(project, CPU, remote_cache=address))
        files.append(digests(project / "build"))
    all_actions = 1 + BINDING
    assert action_counts(results[0]) == (all_actions, 0, 0)
    assert action_counts(results[1]) == (0, 0, all_actions)
    assert files[0] == files[1]


def test_an_executor_makes_the_same_bytes(lean: Built, serve: Callable[..., str], tmp_path: Path) -> None:
    port = free_port()
    serve("--execute", "--jobs=2", f"--port={port}")
    # Debian's Bazel opens no Unix socket.
    options = ["--config=remote-exec", f"--remote_executor=grpc://127.0.0.1:{port}", "--platform_suffix=remote"]
    label = f"//examples/lean:{CU130}"
    ran = lean.driver.runners(tmp_path / "events.json", *options, label)
    # Besides the actions: the sources of both targets without comments, the id and its two objects, link, check and
    # variant. Our programs are there from `lean`.
    assert ran["remote"] == cuda_actions(2) + BINDING + 8
    assert ran.keys() <= {"remote", "internal", "total"}
    assert digests(lean.driver.place(label, *options)) == digests(lean.build / CU130)


@pytest.mark.parametrize("scheme", [pytest.param("unix", marks=pytest.mark.slow), "grpc"])
def test_a_server_that_is_not_there(clone: Driver, base: Path, scheme: str) -> None:
    """Bazel says so and builds by itself: nothing is lost but the time."""
    address = {"unix": f"unix:{base}/nothing", "grpc": f"grpc://127.0.0.1:{free_port()}"}[scheme]
    project = copy_project(PROJECTS / "tiny", base / f"nobody-{scheme}")
    source = project / "csrc" / "one.cpp"
    source.write_text(f"{source.read_text()}// {scheme}\n")
    done = clone.run("build", project, f"--variant={CPU}", f"--remote-cache={address}")
    assert "warning: Remote Cache: UNAVAILABLE" in done.stderr


def _remote(driver: Driver, project: Path, address: str, *variants: str) -> tuple[int, int, int]:
    options = [f"--variant={glob}" for glob in variants]
    done = driver.run("build", project, "--json", f"--remote-executor={address}", *options)
    return action_counts(json.loads(done.stdout))


@pytest.mark.slow
def test_an_executor_shares_what_it_ran(clone: Driver, serve: Callable[..., str], base: Path) -> None:
    """A second clone runs nothing of the same variant, and of a torch release more the binding alone."""
    address = serve("--execute", "--jobs=2")
    projects, drivers = [], []
    for name in ("ran", "took"):
        place = base / f"executed-{name}"
        place.mkdir()
        projects.append(copy_project(PROJECTS / "tiny", place / "tiny"))
        drivers.append(another(clone, place))
    kernel = cuda_actions(1)
    assert _remote(drivers[0], projects[0], address, CU130) == (kernel + BINDING, 0, 0)
    more = CU130.replace("torch213", "torch214")
    # The binding includes nothing of torch, so its text is that of the other release; the C++ standard is not.
    assert _remote(drivers[1], projects[1], address, CU130, more) == (2, kernel + 1, kernel + BINDING + BINDING - 3)
    assert digests(projects[1] / "build", [CU130]) == digests(projects[0] / "build")


@pytest.mark.slow
def test_every_toolkit_runs_in_a_bare_root(clone: Driver, serve: Callable[..., str], base: Path) -> None:
    """Each nvcc with its host compiler, both C++ ABIs: what they need besides their inputs is what is documented."""
    address = serve("--execute", "--jobs=2")
    place = base / "bare-roots"
    place.mkdir()
    project = copy_project(PROJECTS / "tiny", place / "tiny")
    variants = [
        *VARIANTS,
        *(f"torch25-cxx{abi}-{cuda}-x86_64-linux" for abi in ("11", "98") for cuda in ("cu118", "cu124")),
    ]
    variants.append("torch215-cxx11-cu135-x86_64-linux")
    driver = another(clone, place)
    ran, shared, cached = _remote(driver, project, address, *variants)
    assert cached == 0
    assert ran > 0
    assert ran + shared == sum(1 + BINDING if "-cpu-" in variant else cuda_actions(1) + BINDING for variant in variants)
    there = digests(project / "build")
    (base / "bare-roots-here").mkdir()
    here = another(clone, base / "bare-roots-here")
    local = copy_project(PROJECTS / "tiny", base / "bare-roots-here" / "tiny")
    here.build(local, *variants)
    assert digests(local / "build") == there
