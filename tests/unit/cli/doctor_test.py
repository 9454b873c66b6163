"""`driver doctor` says of each line whether it is right, also without a network."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING

import pytest
import tomli

from py_driver.__main__ import main
from py_driver.authoring import doctor
from py_driver.authoring.doctor import check_caches, check_debian, check_disk
from py_driver.authoring.gpu_driver import amd_check, driver_check
from py_driver.authoring.machine_check import RIGHT, UNKNOWN, WRONG
from py_driver.bazel.find import OUTPUT_VARIABLE
from py_driver.errors import Code, error
from py_driver.fetch.fetcher import MIRROR_VARIABLE
from py_driver.matrix.releases import Releases
from py_driver.resources import resource
from py_driver.system.cache import CACHE_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

SERVERS = ["package index", "clock", "Debian archive"]
NAMES = ["disk", "cache", "sandbox", *SERVERS, "Bazel", "torch", "GPU driver", "caches"]


def checks(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code of `driver doctor --json`, and the checks by their names."""
    code = main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)["checks"]
    return code, {check["name"]: check for check in found}


def test_an_index_in_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", tmp_path.as_uri())
    code, found = checks(capsys)
    assert [*found] == NAMES
    assert {check["state"] for check in found.values()} <= {RIGHT, WRONG, UNKNOWN}
    assert code == (4 if any(check["state"] == WRONG for check in found.values()) else 0)
    assert found["package index"]["state"] == RIGHT
    assert found["clock"]["state"] == UNKNOWN


@pytest.mark.thorough
def test_an_index_that_never_answers_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.getsockname()[1]}/simple")
        start = time.monotonic()
        _, found = checks(capsys)
    assert time.monotonic() - start < tomli.loads(resource("doctor.toml"))["patience-seconds"] + 5
    assert found["package index"]["state"] == UNKNOWN


def test_an_index_that_refuses_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
    code, found = checks(capsys)
    assert (code, found["package index"]["state"]) == (4, WRONG)
    assert found["package index"]["advice"]


@pytest.mark.parametrize(
    ("driver", "backend", "state"),
    [
        ("580.65.06", "cu130", RIGHT),
        ("570.10", "cu130", WRONG),
        ("535.1", "cu124", RIGHT),
        ("470.1", "cu118", RIGHT),
        ("570.10", "cpu", RIGHT),
        ("390.1", "", WRONG),
        ("unknown", "cu130", UNKNOWN),
    ],
)
def test_a_driver_against_a_toolkit(driver: str, backend: str, state: str) -> None:
    assert driver_check(driver, "a GPU", backend, tomli.loads(resource("doctor.toml"))).state == state


@pytest.mark.parametrize(
    ("version", "device", "backend", "state", "found"),
    [
        ("6.16.6\n", "kfd", "rocm7.1", UNKNOWN, "amdgpu 6.16.6; "),
        (None, "kfd", "rocm7.1", UNKNOWN, "amdgpu as Linux has it; "),
        ("6.16.6\n", "", "rocm7.1", WRONG, "amdgpu 6.16.6, without "),
        ("6.16.6\n", "", "cpu", UNKNOWN, "amdgpu 6.16.6"),
    ],
)
def test_a_driver_of_amd(  # noqa: PLR0913  (what is there, and what is said)
    tmp_path: Path, version: str | None, device: str, backend: str, state: str, found: str
) -> None:
    if version:
        (tmp_path / "version").write_text(version)
    if device:
        (tmp_path / device).touch()
    check = amd_check(tmp_path, tmp_path / "kfd", backend)
    assert (check.state, check.found.startswith(found)) == (state, True)
    assert check.advice


def test_caches_have_sizes_and_what_frees_them(tmp_path: Path) -> None:
    root, project = tmp_path / "cache", tmp_path / "project"
    (root / "actions" / "cas").mkdir(parents=True)
    (root / "actions" / "cas" / "result").write_bytes(b"x" * 300_000_000)
    (project / ".dev").mkdir(parents=True)
    (project / "build.toml").touch()
    (project / ".dev" / "library").write_bytes(b"x" * 40_000_000)
    check = check_caches(root, Releases().lock, project)
    assert check.found == "store 0.0 GB, actions 0.3 GB, Bazel 0.0 GB"
    assert check.advice == "`driver cache clean` frees 0.30 GB, `driver clean` frees 0.04 GB"
    assert "driver clean" not in check_caches(root, Releases().lock, tmp_path).advice


def test_the_disk_of_bazels_outputs_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(OUTPUT_VARIABLE, str(tmp_path / "output"))
    alone = check_disk({"free-gigabytes": 0})
    assert (alone.state, alone.found.count("GB free")) == (RIGHT, 1)
    monkeypatch.setenv(OUTPUT_VARIABLE, "/proc/none")
    full = check_disk({"free-gigabytes": 0.001})
    assert (full.state, full.found) == (WRONG, "0.0 GB free for /proc/none")
    assert f"set {OUTPUT_VARIABLE} to a larger disk" in full.advice


def test_another_distribution_has_no_debian_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[tuple[str, ...], tuple[str, ...]]:
        raise error(Code.NOT_DEBIAN, "this machine's apt has no Debian archive set up", help="set it")

    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    monkeypatch.setattr(doctor, "debian_archives", none)
    assert (check_debian().state, check_debian().advice) == (WRONG, "set it")
    monkeypatch.setenv(MIRROR_VARIABLE, "/srv/mirror")
    assert check_debian().state == UNKNOWN
    monkeypatch.setattr(doctor, "debian_archives", lambda: ((), ("https://me:secret@example.org/debian",)))
    assert check_debian().state == RIGHT
    assert "secret" not in check_debian().found
