"""Which pinned archives the variants of a build need."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from py_driver.matrix.configurations import Configuration, parse
from py_driver.matrix.lock import PARTS, Lock
from py_driver.matrix.releases import Releases


def _names(*identifiers: str) -> list[str]:
    return [f"{entry.name} {entry.version}" for entry in Releases().lock.entries_for(map(parse, identifiers))]


def test_compiler_is_needed_without_any_variant() -> None:
    assert "ziglang" in {entry.name for entry in Releases().lock.entries_for([])}


def test_lint_judges_our_programs_with_the_compiler_that_builds_them() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [pinned] = [
        requirement for requirement in project["optional-dependencies"]["lint"] if requirement.startswith("ziglang")
    ]
    assert pinned.replace("==", " ") in {f"{entry.name} {entry.version}" for entry in Releases().lock.entries_for([])}


def test_noarch_variant_needs_the_compiler_only() -> None:
    assert _names("torch-universal") == _names()


def test_cpu_variant_needs_its_torch_and_no_cuda() -> None:
    more = [name for name in _names("torch213-cxx11-cpu-x86_64-linux") if name not in _names()]
    assert len(more) == 1
    assert more[0].startswith("torch 2.13.")


def test_cuda_variant_needs_what_the_cpu_variant_needs_and_its_cuda() -> None:
    cpu, cuda = _names("torch213-cxx11-cpu-x86_64-linux"), _names("torch213-cxx11-cu130-x86_64-linux")
    more = [name for name in cuda if name not in cpu]
    assert set(cpu) < set(cuda)
    assert any(name.startswith("nvidia-cuda-nvcc 13.0.") for name in more)
    assert not any(" 13.2." in name for name in more)


def test_what_is_read_for_arm_is_for_arm() -> None:
    arm, x86 = (
        Configuration(torch="2.13", abi="cxx11", backend="cpu", cpu=cpu, os="linux") for cpu in ("aarch64", "x86_64")
    )
    lock = Releases().lock
    read, fetched = (set(lock.entries_for([arm], read=wanted)) for wanted in (True, False))
    assert {entry.basename.rpartition("_")[2] for entry in read if entry.basename.endswith(".deb")} == {"arm64.deb"}
    assert {entry.basename.rpartition("_")[2] for entry in fetched - read} == {"amd64.deb"}
    assert set(lock.entries_for([x86], read=True)) == set(lock.entries_for([x86]))
    assert set(lock.entries_for([arm, x86], read=True)) == set(lock.entries_for([arm, x86]))
    assert lock.entries_for([], read=True) == lock.entries_for([])


def test_entry_that_variants_share_comes_once() -> None:
    names = _names(*(f"torch{t}-cxx11-{b}-x86_64-linux" for t in ("213", "215") for b in ("cpu", "cu130", "cu132")))
    assert len(names) == len(set(names))


def test_unknown_versions_are_left_to_bazel() -> None:
    unknown = Configuration(torch="9.99", abi="cxx11", backend="cu999", cpu="x86_64", os="linux")
    assert Releases().lock.entries_for([unknown]) == Releases().lock.entries_for([])


def test_everything_in_the_matrix_is_locked() -> None:
    for torch in Releases().matrix.torch:
        assert Releases().lock.torch_release(torch.version).startswith(f"{torch.version}.")


def test_release_that_is_not_locked() -> None:
    with pytest.raises(KeyError):
        Releases().lock.torch_release("9.99")


def test_what_libraries_define_is_no_matter_of_compile_actions() -> None:
    lock = Releases().lock
    parts = {kind: lock.parts[kind] for kind in PARTS}
    changed = {**parts, "cuda": {version: {**release, "libraries": []} for version, release in parts["cuda"].items()}}
    assert Lock(changed).toolchain_digests() == lock.toolchain_digests()
