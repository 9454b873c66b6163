"""A build for some GPU architectures only: what it compiles, and that nobody publishes it."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING

import pytest
from sections import CPU, CUDA, GENERAL, TORCH, make, names

from py_driver.actions.workspace import workspace_for
from py_driver.building.variant_dir import present
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import render
from py_driver.plan.narrow import narrowed
from py_driver.plan.plan import plan_directory
from py_driver.system.cache import CACHE_VARIABLE
from py_driver.system.gpus import native_archs

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

CU130 = "torch213-cxx11-cu130-x86_64-linux"
CPU213 = "torch213-cxx11-cpu-x86_64-linux"
ROCM = '[kernel.r]\nbackend = "rocm"\ndepends = []\nsrc = ["g/a.cu"]\nrocm-archs = ["gfx942", "gfx90a:xnack-"]\n'
HOPPER = '[kernel.h]\nbackend = "cuda"\ndepends = []\nsrc = ["h.cu"]\ncuda-capabilities = ["9.0a", "10.0a"]\n'


def plan(directory: Path, *archs: str, more: str = "") -> Plan:
    listed = f"cuda-capabilities = {json.dumps(archs)}\n"
    (directory / "h.cu").touch()
    general = GENERAL.replace('"cuda"]', '"cuda", "rocm"]') if "rocm" in more else GENERAL
    return make(directory, general + TORCH + CPU + CUDA + listed + more)


def kept(made: Plan, section: str = "g", backend: str = "cu130") -> tuple[str, ...]:
    [group] = [group for group in made.groups if group.name == section]
    return group.archs[backend].kept


@pytest.mark.parametrize(
    ("asked", "archs", "expected"),
    [
        (["8.0", "9.0", "10.0"], ["9.0"], ("9.0",)),
        (["8.0", "9.0", "9.0a"], ["9.0"], ("9.0a",)),
        (["8.0", "9.0"], ["8.6"], ("8.0",)),
        (["8.0+PTX"], ["12.0"], ("8.0+PTX",)),
        (["8.0", "8.6", "9.0"], ["9.0", "8.0"], ("8.0", "9.0")),
        (["8.0", "9.0", "10.0"], ["9.0a"], ("9.0",)),
    ],
)
def test_a_section_keeps_what_serves(
    asked: list[str], archs: list[str], expected: tuple[str, ...], tmp_path: Path
) -> None:
    made = narrowed(plan(tmp_path, *asked), archs)
    assert kept(made) == expected
    [variant] = [variant for variant in made.variants if variant.name == CU130]
    assert variant.archs == expected
    assert variant.metadata["backend"] == {"type": "cuda", "archs": list(expected)}
    assert variant.metadata["only-archs"] == archs


def test_code_of_a_family_serves_newer_gpus_of_it(tmp_path: Path) -> None:
    assert kept(narrowed(plan(tmp_path, "8.0", "10.0f"), ["10.3"])) == ("10.0f",)
    with pytest.raises(DriverError):
        narrowed(plan(tmp_path, "8.0", "10.3f"), ["10.0"])


def test_what_has_no_device_code_stays_as_it_is(tmp_path: Path) -> None:
    whole = plan(tmp_path, "8.0", "9.0")
    made = narrowed(whole, ["9.0"])
    assert names(made) == names(whole)
    assert [variant for variant in made.variants if variant.archs is None] == [
        variant for variant in whole.variants if variant.archs is None
    ]
    assert made.identities == whole.identities
    assert narrowed(whole, ["9.0"]) == made
    text = render(made, "")
    assert set(re.findall(r'"cu130": \["(.*?)"\]', text)) == {"9.0"}


def test_a_section_without_any_keeps_its_lowest_to_link(tmp_path: Path) -> None:
    made = narrowed(plan(tmp_path, "8.0", "9.0", more=HOPPER), ["8.0"])
    assert kept(made) == ("8.0",)
    assert kept(made, "h") == ("9.0a",)
    assert next(variant for variant in made.variants if variant.name == CU130).archs == ("8.0", "9.0a")


def test_another_backend_is_excluded(tmp_path: Path) -> None:
    whole = plan(tmp_path, "8.0", "9.0", more=ROCM)
    nvidia, amd = narrowed(whole, ["9.0"]), narrowed(whole, ["gfx90a"])
    assert {variant.configuration.family for variant in nvidia.variants} == {"cpu", "cuda"}
    assert {variant.configuration.family for variant in amd.variants} == {"cpu", "rocm"}
    assert {exclusion.reason for exclusion in amd.excluded[len(whole.excluded) :]} == {
        "it has no device code for gfx90a"
    }
    assert kept(amd, "r", "rocm72") == ("gfx90a:xnack-",)
    assert {variant.configuration.family for variant in narrowed(whole, ["9.0", "gfx942"]).variants} == {
        "cpu",
        "cuda",
        "rocm",
    }


@pytest.mark.parametrize(("archs", "unserved"), [(["7.5"], "7.5"), (["9.0", "gfx942"], "gfx942")])
def test_an_architecture_that_nothing_has(archs: list[str], unserved: str, tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        narrowed(plan(tmp_path, "8.0", "9.0"), archs)
    [one] = caught.value.diagnostics
    assert one.code is Code.NO_VARIANTS
    assert one.message == f"`re_lu` has no device code for the architecture `{unserved}`"
    assert one.help == "it has device code for 8.0, 9.0, as build.toml says"


def test_without_device_code_there_is_nothing_to_choose(tmp_path: Path) -> None:
    whole = make(tmp_path, GENERAL.replace(', "cuda"', "") + TORCH + CPU)
    assert narrowed(whole, ["9.0"]) is whole


def test_in_the_repository_it_is_built_beside_the_checked_in_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    relu = pytestconfig.rootpath / "examples" / "relu"
    made = narrowed(plan_directory(relu, Releases()), ["9.0"])
    workspace = workspace_for(relu, made, Releases())
    assert workspace.root.is_relative_to(tmp_path / "cache")
    assert workspace.package == "projects/relu"


def test_nobody_publishes_it(tmp_path: Path) -> None:
    whole = plan(tmp_path, "8.0", "9.0")
    for variant in narrowed(whole, ["9.0"]).variants[:2]:
        place = tmp_path / "build" / variant.name
        place.mkdir(parents=True)
        (place / "metadata.json").write_text(json.dumps(variant.metadata), encoding="utf-8")
    assert [variant.name for variant in present(tmp_path, whole, [CPU213])] == [CPU213]
    with pytest.raises(DriverError) as caught:
        present(tmp_path, whole, [])
    [one] = caught.value.diagnostics
    assert (one.code, one.help) == (Code.CHANGED_BUILD, "build it again without --archs")
    expected = f"{tmp_path}/build/{CU130} was built with `--archs 9.0`, for this machine's use only"
    assert one.message == expected


def programs(directory: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    for name, script in scripts.items():
        program = directory / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(directory))


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        ({"nvidia_smi": "echo 9.0; echo 9.0; echo 12.0"}, ("9.0", "12.0")),
        ({"rocminfo": "echo '  Name:    gfx942  '; echo '  Name:  amdgcn-amd-amdhsa--gfx942:xnack-'"}, ("gfx942",)),
        ({"nvidia_smi": "echo 8.9", "rocminfo": "exit 1"}, ("8.9",)),
    ],
)
def test_the_gpus_of_this_machine(
    scripts: dict[str, str], expected: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, monkeypatch, **scripts)
    assert native_archs() == expected


def test_no_gpu_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, nvidia_smi="echo 'failed because of the driver'; exit 9")
    assert os.environ["PATH"] == str(tmp_path)
    with pytest.raises(DriverError) as caught:
        native_archs()
    [one] = caught.value.diagnostics
    said = "no GPU of this machine is found: nvidia-smi failed with exit code 9; there is no rocminfo on PATH"
    assert (one.code, one.message) == (Code.SET_UP, said)
