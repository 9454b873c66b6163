"""What torch calls its OpenMP runtime: the record in the lock, and how it is made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from py_driver.errors import DriverError
from py_driver.fetch.fetcher import Fetcher
from py_driver.matrix import torch_openmp
from py_driver.matrix.lock_update import read
from py_driver.matrix.releases import Releases, openmp_file
from py_driver.matrix.torch_openmp import RUNTIME, is_current, read_file, update
from py_driver.matrix.torch_symbols import versions

ABI = Path(__file__).parents[2] / "abi" / "libraries"


def _torch() -> dict[str, Any]:
    torch: dict[str, Any] = read(Releases())["torch"]
    return torch


def test_every_locked_torch_is_recorded_and_is_found_by_the_name_that_extensions_need() -> None:
    recorded = read_file(openmp_file())
    assert is_current(recorded, _torch())
    assert {key for key, record in recorded.items() if record["soname"] != RUNTIME} == {"2.9 aarch64"}
    old = {"2.4", "2.5", "2.6"}
    assert {key for key, record in recorded.items() if record["file"] != f"torch/lib/{RUNTIME}"} == {
        *old,
        "2.9 aarch64",
    }
    for key, record in recorded.items():
        newest = {"GOMP": "4.5", "OMP": "4.5"} if key in old else {"GOMP": "5.0", "OMP": "5.0"}
        assert record["newest"] == ({"GOMP": "5.1.1", "OMP": "5.2"} if key == "2.10 aarch64" else newest)


def test_gcc_is_one_release_with_its_libstdcxx_and_its_runtime() -> None:
    lock = read(Releases())
    packages = [package for part in (lock["gcc"]["packages"], lock["cc"]["gcc"]) for package in part]
    of_gcc = {package["version"] for package in packages if "/gcc-12/" in package["filename"]}
    assert len(of_gcc) == 1
    for part in lock["gcc"]["cross"].values():
        crossed = {
            package["version"].partition("cross")[0] for package in part if "/gcc-12-cross/" in package["filename"]
        }
        assert crossed == {version.partition("+")[0] for version in of_gcc}
    assert {package["name"] for package in lock["gcc"]["packages"] if package["version"] in of_gcc} == {
        "g++-12",
        "libgcc-12-dev",
        "libgomp1",
    }


def test_the_abi_check_allows_what_the_newest_torch_has_and_nothing_newer() -> None:
    policy = Path(openmp_file()).parents[2] / "rules" / "private" / "policy"
    lines = [line.split() for line in (policy / "symbol_versions.txt").read_text().splitlines() if line[0] != "#"]
    allowed = {family: newest for family, newest in lines if family in {"GOMP", "OMP"}}
    known = [record["newest"] for key, record in read_file(openmp_file()).items() if key in _torch()]
    assert allowed == max(known, key=lambda one: one["GOMP"])
    assert RUNTIME in (policy / "libraries.txt").read_text().splitlines()


def test_what_is_there_is_kept_and_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = {version: part for version, part in _torch().items() if version in {"2.4", "2.13"}}
    recorded = read_file(openmp_file())
    asked: list[str] = []

    def fetched(entry: Any) -> dict[str, Any]:  # noqa: ANN401  (an Entry)
        asked.append(entry.version)
        return {"file": "f", "soname": "s", "newest": {}}

    monkeypatch.setattr(torch_openmp, "_read", fetched)
    changed = {**recorded, "2.13": {**recorded["2.13"], "sha256": "0"}, "2.3": recorded["2.4"]}
    assert not is_current(changed, lock)
    said: list[str] = []
    path = tmp_path / "torch_openmp.json"
    path.write_bytes(update(changed, lock, said.append))
    assert (asked, said) == (["2.13.0"], ["torch 2.13"])
    made = read_file(path)
    assert is_current(made, lock)
    assert made["2.4"] == recorded["2.4"]
    assert (made["2.13"]["soname"], made["2.13"]["sha256"]) == ("s", recorded["2.13"]["sha256"])


@pytest.mark.parametrize("text", ["", "{"])
def test_a_damaged_record_is_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert read_file(path) == {}
    assert read_file(tmp_path / "missing") == {}


def test_wheel_without_a_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path))
    monkeypatch.setattr(Fetcher, "fetch", lambda _self, _entry: type("Fetched", (), {"path": tmp_path}))
    monkeypatch.setattr(torch_openmp, "unpack", lambda _path, _entry, to: to.mkdir(parents=True))
    with pytest.raises(DriverError) as failed:
        update({}, {"2.13": _torch()["2.13"]}, lambda _: None)
    assert "has no torch/lib/libgomp*, or several" in failed.value.diagnostics[0].message


def test_versions_that_a_library_defines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions(ABI / "good.so") == []
    system = (Path(directory, "libm.so.6") for directory in ("/lib/x86_64-linux-gnu", "/lib64", "/usr/lib"))
    library = next(path for path in system if path.is_file())
    assert {"GLIBC_2.2.5", "GLIBC_2.29"} <= set(versions(library))
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path))

    def unpacked(_path: Path, _entry: object, to: Path) -> None:
        (to / "torch" / "lib").mkdir(parents=True)
        shutil.copy(library, to / "torch" / "lib" / "libgomp-0123.so.1")

    monkeypatch.setattr(Fetcher, "fetch", lambda _self, _entry: type("Fetched", (), {"path": tmp_path}))
    monkeypatch.setattr(torch_openmp, "unpack", unpacked)
    monkeypatch.setattr(torch_openmp, "_FAMILIES", ("GLIBC",))
    one = json.loads(update({}, {"2.13": _torch()["2.13"]}, lambda _: None))["2.13"]
    assert (one["file"], one["soname"]) == ("torch/lib/libgomp-0123.so.1", "libm.so.6")
    assert tuple(map(int, one["newest"]["GLIBC"].split("."))) >= (2, 29)
