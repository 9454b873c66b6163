"""Compilers run on the machine that builds: what is locked for one whose CPU is not the usual one, and what is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from machine import pretend_cpu
from sections import CUDA, GENERAL, TORCH, make

from py_driver.building.selection import archives
from py_driver.errors import Code, DriverError
from py_driver.matrix.configurations import CPUS, USUAL_CPU, Configuration, parse
from py_driver.matrix.installation import module_root
from py_driver.matrix.lock import PARTS, Lock, for_machine
from py_driver.matrix.matrix import MACHINES_PART
from py_driver.matrix.releases import Releases, lock_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from py_driver.fetch.entry import Entry

ARM = "aarch64"
OTHERS = [cpu for cpu in CPUS if cpu != USUAL_CPU]
LOCKED: dict[str, Any] = {kind: json.loads(lock_file(kind).read_text(encoding="utf-8")) for kind in PARTS}


def lock_on(cpu: str, monkeypatch: pytest.MonkeyPatch) -> Lock:
    """The lock of a machine with a CPU."""
    pretend_cpu(cpu, monkeypatch)
    lock = Releases().lock
    assert lock.machine == cpu
    return lock._replace(parts={kind: lock.parts[kind] for kind in PARTS})


def versions(entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """What archives are, whatever CPU they are for."""
    return [(entry.name, entry.version) for entry in entries]


def test_the_usual_machine_has_the_lock_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lock_on(USUAL_CPU, monkeypatch).parts == LOCKED


@pytest.mark.parametrize("cpu", OTHERS)
def test_another_machine_has_all_releases_in_the_same_versions(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = lock_on(USUAL_CPU, monkeypatch), lock_on(cpu, monkeypatch)
    configurations = [configuration for configuration, _ in Releases().matrix.configurations()]
    assert theirs.without_programs(configurations) == ours.without_programs(configurations) == []
    assert theirs.parts["cuda"].keys() == ours.parts["cuda"].keys()
    assert theirs.parts["cc"]["zig"].keys() == ours.parts["cc"]["zig"].keys()
    for configuration in configurations:
        here = versions(theirs.entries_for([configuration]))
        assert set(versions(ours.entries_for([configuration]))) == set(here)
    changed = {kind for kind in PARTS if ours.parts[kind] != theirs.parts[kind]}
    assert changed == {"cc", "cuda", "gcc", "hipify"}


def test_programs_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = lock_on(ARM, monkeypatch)
    cuda, rocm = parse("torch213-cxx11-cu130-x86_64-linux"), parse("torch213-cxx11-rocm72-x86_64-linux")
    files = {entry.name: entry.basename for entry in lock.entries_for([cuda, rocm], read=True)}
    # Of the runtime nvlink reads a library of the machine; the headers are the same in both archives.
    assert files["nvidia-cuda-runtime"].endswith("_aarch64.whl")
    for name in ("ziglang", "nvidia-cuda-nvcc", "nvidia-nvvm", "python3.11-minimal", "libc6"):
        assert files[name].endswith(("_aarch64.whl", "_arm64.deb")), files[name]
    # What is compiled for has not changed.
    for name in ("torch", "libstdc++-12-dev", "libclang-common-22-dev"):
        assert files[name].endswith(("x86_64.whl", "_amd64.deb")), files[name]
    compilers = {cpu: {entry.name for entry in lock.gcc_entries([cpu])} for cpu in CPUS}
    assert "g++-12" in compilers[ARM]
    assert "g++-12-x86-64-linux-gnu" in compilers[USUAL_CPU]
    assert not [entry for cpu in CPUS for entry in lock.gcc_entries([cpu]) if entry.basename.endswith("_amd64.deb")]


def test_nvcc_of_every_release_is_another_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = lock_on(ARM, monkeypatch)
    for version, release in lock.parts["cuda"].items():
        before = LOCKED["cuda"][version]
        pairs = [pair for pair in zip(before["archives"], release["archives"], strict=True) if pair[0] != pair[1]]
        assert {key: value for key, value in release.items() if key != "archives"} == {
            key: value for key, value in before.items() if key != "archives"
        }
        unpacked = {part for _, archive in pairs for step in archive["unpack"] for part in step["names"]}
        assert {"bin/", "nvvm/"} <= unpacked or "bin/nvcc" in unpacked
        for ours, theirs in pairs:
            assert (ours["name"], ours["version"]) == (theirs["name"], theirs["version"])
            assert [step["names"] for step in ours["unpack"]] == [step["names"] for step in theirs["unpack"]]
            assert any(word in theirs["filename"] for word in ("aarch64", "arm64", "linux-sbsa"))


def test_a_machine_fetches_its_own_library_and_those_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def libraries(machine: str, cpu: str, backend: str) -> list[str]:
        configuration = Configuration(torch="2.13", abi="cxx11", backend=backend, cpu=cpu, os="linux")
        entries = lock_on(machine, monkeypatch).entries_for([configuration])
        return [entry.basename.rpartition("_")[2] for entry in entries if entry.name == "libstdc++6"]

    # Programs of ours are compiled for the machine; what nvcc makes for GPUs is with the usual library everywhere.
    assert libraries("x86_64", "x86_64", "cu130") == ["amd64.deb"]
    assert libraries("x86_64", ARM, "cpu") == ["amd64.deb", "arm64.deb"]
    assert libraries(ARM, ARM, "cpu") == ["arm64.deb"]
    assert libraries(ARM, ARM, "cu130") == ["amd64.deb", "arm64.deb"]
    assert libraries(ARM, "x86_64", "cpu") == ["amd64.deb", "arm64.deb"]


def test_a_release_without_programs_is_said_with_the_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path, GENERAL + TORCH + CUDA)
    lock = lock_on(ARM, monkeypatch)
    own = LOCKED[MACHINES_PART][ARM]
    rest = {version: release for version, release in own["cuda"].items() if version != "13.2"}
    lock = lock._replace(parts={**lock.parts, "cuda": for_machine("cuda", LOCKED["cuda"], {**own, "cuda": rest})})
    chosen = [
        variant
        for variant in made.variants
        if variant.configuration.backend in ("cu130", "cu132") and variant.configuration.torch == "2.13"
    ]
    with pytest.raises(DriverError) as caught:
        archives(made, chosen, lock)
    wrong = caught.value.diagnostics
    assert {diagnostic.code for diagnostic in wrong} == {Code.UNSUPPORTED}
    assert [one.message.split("`")[1] for one in wrong] == [one.name for one in chosen if "cu132" in one.name]
    assert "the CPU aarch64" in wrong[0].message
    assert archives(made, [variant for variant in chosen if "cu130" in variant.name], lock)


def test_no_compiler_runs_on_a_third_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path, GENERAL + TORCH + CUDA)
    with pytest.raises(DriverError, match="this machine with the CPU riscv64") as caught:
        archives(made, made.variants[:1], lock_on("riscv64", monkeypatch))
    assert caught.value.diagnostics[0].code is Code.PLATFORM
    assert archives(made, made.variants[:1], lock_on("riscv64", monkeypatch), read=True)


@pytest.mark.parametrize("cpu", CPUS)
def test_bazel_is_told_the_same(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (module_root() / "toolchains" / "machines.bzl").read_text(encoding="utf-8")
    names: dict[str, Any] = {"load": lambda *_: None, "CPU": USUAL_CPU}
    exec(text, names)  # noqa: S102  (that file of ours is Python too)
    assert names["lock_for"](cpu, LOCKED) == lock_on(cpu, monkeypatch).parts
