"""Remote caches and executors that fail: never other bytes, never a hang, and the next run succeeds."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from clone import (
    BINDING,
    CPU,
    CU130,
    PROJECTS,
    Driver,
    action_counts,
    another,
    copy_project,
    cuda_actions,
    digests,
    wait_for_process,
)
from http_cache import Cache, Fault, serving
from kernels._rust import Digest, Metadata  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from clone import Built

pytestmark = pytest.mark.e2e

_LABEL = f"//examples/relu:{CPU}"
_COMPILE = 1 + BINDING


@pytest.fixture(scope="module")
def cache(relu: Built, base: Path) -> Iterator[Cache]:
    """A cache that has all of a variant."""
    with serving() as server:
        events = base / "filled.json"
        ran = _run(relu.driver, events, server, "filled")
        assert ran.get("remote cache hit", 0) == 0
        assert ran["linux-sandbox"] > _COMPILE
        assert server.counts["PUT /ac"] == ran["linux-sandbox"]
        again = _run(relu.driver, events, server, "full")
        assert again["remote cache hit"] == ran["linux-sandbox"]
        assert "linux-sandbox" not in again
        yield server


def _options(server: Cache, suffix: str) -> list[str]:
    """Of a build that has nothing of its own; the suffix is in no action key, since paths are mapped."""
    return [
        f"--remote_cache={server.address}",
        f"--platform_suffix={suffix}",
        "--remote_timeout=2",
        "--remote_retries=1",
    ]


def _run(driver: Driver, events: Path, server: Cache, suffix: str) -> dict[str, int]:
    return driver.runners(events, *_options(server, suffix), _LABEL)


_LOST = 39
"""Bazel's exit code if it took a result for granted whose bytes the cache does not give; the driver's E301."""


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault.DENIED, 0),
        pytest.param(Fault.BROKEN, 0, marks=pytest.mark.slow),
        (Fault.LOST, _LOST),
        *(
            pytest.param(fault, _LOST, marks=pytest.mark.slow)
            for fault in (Fault.TRUNCATED, Fault.STALLED, Fault.SWAPPED, Fault.CUT)
        ),
    ],
)
def test_a_cache_that_misbehaves(relu: Built, cache: Cache, fault: Fault, code: int, tmp_path: Path) -> None:
    """It has the results that are asked for: the build does without them, or fails; the next one, well, succeeds."""
    cache.fault = fault
    before = {path: content for path, content in cache.blobs.items() if path.startswith("/cas/")}
    options = _options(cache, fault)
    try:
        with relu.driver.start("bazel", "--", "build", *options, _LABEL) as process:
            _, err = process.communicate(timeout=120)
    finally:
        cache.fault = Fault.NONE
    assert process.returncode == code, err
    if code == 0:
        assert digests(relu.driver.place(_LABEL, *options)) == digests(relu.build / CPU)
    else:
        assert "Failed to fetch blobs" in err
        assert "retrying the build" in err
    assert {path: cache.blobs[path] for path in before} == before
    next_one = fault if code else f"{fault}-mended"
    well = _run(relu.driver, tmp_path / "events.json", cache, next_one)
    # What the cache said it had lost is made again.
    assert fault is Fault.LOST or "linux-sandbox" not in well
    assert digests(relu.driver.place(_LABEL, *_options(cache, next_one))) == digests(relu.build / CPU)


@pytest.mark.slow
def test_a_cache_that_is_killed_in_the_middle(clone: Driver, serve: Callable[..., str], base: Path) -> None:
    """The build goes on here; what it made stays here, and the next one finds it."""
    address = serve()
    place = base / "killed"
    place.mkdir()
    project = copy_project(PROJECTS / "tiny", place / "tiny")
    driver = another(clone, place)
    server = wait_for_process("buildbox-casd", address.rpartition(":")[2])
    with driver.start("build", project, f"--variant={CU130}", "--json", f"--remote-cache={address}") as process:
        wait_for_process("compile_program", "phase", str(place))
        os.kill(server, signal.SIGKILL)
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert action_counts(json.loads(out)) == (cuda_actions(1) + BINDING, 0, 0)
    assert action_counts(driver.build(project, CU130, remote_cache=address))[0] == 0


@pytest.mark.slow
def test_what_an_executor_made_and_took_along(clone: Driver, serve: Callable[..., str], base: Path) -> None:
    """Files that only the executor had are made again, here, once it is gone."""
    address = serve("--execute", "--jobs=2")
    place = base / "gone"
    place.mkdir()
    project = copy_project(PROJECTS / "tiny", place / "tiny")
    driver = another(clone, place)
    server = wait_for_process("buildbox-casd", address.rpartition(":")[2])
    driver.run("build", project, f"--variant={CU130}", f"--remote-executor={address}")
    made = digests(project / "build")
    os.kill(server, signal.SIGKILL)
    source = project / "csrc" / "two.cu"
    text = source.read_text()
    source.write_text(f"{text}// a comment\n")
    driver.build(project, CU130)
    source.write_text(text)
    driver.build(project, CU130)
    assert digests(project / "build") == made


@pytest.mark.slow
def test_signals_at_ten_points(clone: Driver, base: Path) -> None:
    """Whenever a build is ended, and however: the next one succeeds, with the bytes of one that nobody ended."""
    place = base / "signals"
    place.mkdir()
    driver = another(clone, place)
    project = copy_project(PROJECTS / "tiny", place / "tiny")
    driver.build(project, CU130)
    source = project / "csrc" / "two.cu"
    text = source.read_text()
    whole = digests(project / "build")
    for point, sent in zip(range(10), [signal.SIGINT, signal.SIGTERM, signal.SIGKILL] * 4, strict=False):
        source.write_text(f"{text}\n__global__ void more_{point}(int* out) {{ *out = {point}; }}\n")
        with driver.start("build", project, f"--variant={CU130}") as process:
            time.sleep(0.3 + 0.4 * point)
            process.send_signal(sent)
            _, err = process.communicate(timeout=120)
        # -sent: Python was not up yet, on a machine with other work.
        assert process.returncode in {0, 130, -sent}, err
        # The one before or the new one, if the build was faster than the signal; but whole.
        variant = project / "build" / CU130
        stated = Metadata.from_bytes((variant / "metadata.json").read_bytes()).digest
        stated.validate(Digest.hash_variant(stated.algorithm, variant))
        assert len(digests(project / "build")) == len(whole)
    source.write_text(text)
    driver.build(project, CU130)
    assert digests(project / "build") == whole


@pytest.mark.slow
def test_eight_clients_at_once(clone: Driver, serve: Callable[..., str], base: Path) -> None:
    """They build the same variant through one cache, which has it; the seconds are what docs/remote.md says."""
    address = serve()
    places = [base / f"client-{number}" for number in range(9)]
    drivers = []
    for directory in places:
        directory.mkdir()
        copy_project(PROJECTS / "tiny", directory / "tiny")
        drivers.append(another(clone, directory))
    first = drivers[0].build(places[0] / "tiny", CU130, remote_cache=address)
    count = action_counts(first)[0]
    assert count == cuda_actions(1) + BINDING
    options = ["--json", f"--variant={CU130}", f"--remote-cache={address}"]
    start = time.monotonic()
    clients = [
        driver.start("build", directory / "tiny", *options)
        for driver, directory in zip(drivers[1:], places[1:], strict=True)
    ]
    answers = [client.communicate(timeout=900) for client in clients]
    print(f"eight clients: {time.monotonic() - start:.0f} s; the first: {first['seconds']:.0f} s")  # noqa: T201
    assert [client.returncode for client in clients] == [0] * 8, answers
    assert [action_counts(json.loads(out)) for out, _ in answers] == [(0, 0, count)] * 8
    bytes_of = [digests(directory / "tiny" / "build") for directory in places]
    assert bytes_of == [bytes_of[0]] * 9
