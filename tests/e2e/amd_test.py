"""Variants for ROCm: code objects for exactly the declared architectures, compiled once, the same on every machine."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from amd import code_objects
from clone import BINDING, ROCM, Built, action_counts, copy_project, digests, hip_actions, planned

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_ARCHS = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32, "gfx1201": 32}
"""Those of the examples, with the threads of a wavefront."""
_OLDER = ROCM.replace("torch213", "torch212")
_RESOLVE = """
import pathlib, sys, torch
torch.__version__, torch.version.hip = sys.argv[2:]
from kernels.variants import get_variants_local, resolve_variant
found, trace = resolve_variant(get_variants_local(pathlib.Path(sys.argv[1])))
print(found.variant_str if found else trace)
"""


@pytest.fixture(scope="module")
def row_sum(relu: Built, base: Path) -> Built:
    project = copy_project(relu.driver.root / "examples" / "row_sum", base / "row_sum")
    return Built(driver=relu.driver, project=project, result=relu.driver.build(project, ROCM))


def _library(build: Path) -> bytes:
    [path] = build.glob("*.so")
    return path.read_bytes()


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_code_objects_are_those_of_the_declared_architectures(relu: Built) -> None:
    metadata = json.loads((relu.build / ROCM / "metadata.json").read_text())
    assert metadata["backend"] == {"type": "rocm", "archs": sorted(_ARCHS)}
    found = list(code_objects(_library(relu.build / ROCM)))
    assert sorted(image.named for image in found) == sorted(_ARCHS)
    assert all(image.machine == image.named for image in found)


def test_warps_have_the_size_of_the_architecture(row_sum: Built) -> None:
    found = {
        code_object.named: set(code_object.wavefronts) for code_object in code_objects(_library(row_sum.build / ROCM))
    }
    assert found == {arch: {size} for arch, size in _ARCHS.items()}


def test_each_phase_is_an_action(row_sum: Built) -> None:
    assert action_counts(row_sum.result) == (BINDING + hip_actions(len(_ARCHS)), 0, 0)
    assert planned(row_sum.result) == action_counts(row_sum.result)


@pytest.mark.slow
def test_features_are_in_the_code_and_not_in_the_metadata(row_sum: Built, base: Path) -> None:
    project = copy_project(row_sum.project, base / "features")
    _edit(project / "build.toml", '["gfx90a", "gfx942", "gfx1100", "gfx1201"]', '["gfx942:sramecc+:xnack-", "gfx1100"]')
    driver = row_sum.driver
    driver.build(project, ROCM)
    metadata = json.loads((project / "build" / ROCM / "metadata.json").read_text())
    assert metadata["backend"] == {"type": "rocm", "archs": ["gfx1100", "gfx942"]}
    named = {code_object.named for code_object in code_objects(_library(project / "build" / ROCM))}
    assert named == {"gfx1100", "gfx942:sramecc+:xnack-"}
    [checked] = json.loads(driver.run("abi-check", project / "build", "--json").stdout)["libraries"]
    assert (checked["compliant"], set(checked["gpu-code"])) == (True, named)
    driver.run("abi-check", project / "build", "--archs=gfx1100,gfx942:sramecc+:xnack-")
    wrong = driver.run("abi-check", project / "build", "--archs=gfx1100,gfx942:xnack-", code=5)
    assert "gfx942:sramecc+:xnack-: in the file, but not declared" in wrong.stdout


@pytest.mark.slow
def test_a_further_torch_compiles_no_device_code(row_sum: Built) -> None:
    result = row_sum.driver.build(row_sum.project, ROCM, _OLDER)
    assert action_counts(result) == (BINDING, hip_actions(len(_ARCHS)), BINDING + hip_actions(len(_ARCHS)))
    assert planned(result) == action_counts(result)
    one, other = (list(code_objects(_library(row_sum.build / variant))) for variant in (ROCM, _OLDER))
    assert one == other


def test_a_further_architecture_compiles_for_that_one_alone(row_sum: Built, base: Path) -> None:
    project = copy_project(row_sum.project, base / "gfx")
    row_sum.driver.build(project, ROCM)
    _edit(project / "build.toml", '"gfx90a", "gfx942"', '"gfx90a", "gfx942", "gfx1030"')
    result = row_sum.driver.build(project, ROCM)
    # Four phases for gfx1030; the bundle; the text of the binding, with the new id.
    assert action_counts(result) == (4 + 1 + 1, 0, BINDING + hip_actions(5) - 6)
    assert planned(result) == action_counts(result)
    names = [code_object.named for code_object in code_objects(_library(project / "build" / ROCM))]
    assert names == ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"]


def test_a_comment_compiles_nothing(row_sum: Built, base: Path) -> None:
    project = copy_project(row_sum.project, base / "hip-comment")
    row_sum.driver.build(project, ROCM)
    _edit(project / "csrc" / "row_sum.cu", "// A warp for each row.", "// A warp for each row, as was said.")
    ran = action_counts(row_sum.driver.build(project, ROCM))[0]
    # The text of the binding gets the new id, which it does not use.
    assert ran == 1


def test_phases_make_the_code_that_one_call_of_clang_makes(row_sum: Built, tmp_path: Path) -> None:
    label = f"//examples/row_sum:{ROCM}"
    row_sum.driver.bazel("build", label)
    query = f'mnemonic("Hip(Preprocess|DeviceCompile)", deps({label}))'
    found = json.loads(row_sum.driver.bazel("aquery", "--output=jsonproto", "--noinclude_artifacts", query))["actions"]
    calls = [call["arguments"] for call in found if "--offload-arch=gfx942" in call["arguments"]]
    [preprocess] = [call[call.index("--") + 1 :] for call in calls if "-E" in call]
    [compile_] = [call for call in calls if "-S" in call]
    root = row_sum.driver.root.joinpath(row_sum.driver.bazel("info", "execution_root").strip())
    [split] = root.glob("bazel-out/*/bin/examples/row_sum/row_sum_rocm.objects/csrc/row_sum.cu.phases/gfx942/device.s")
    configuration = split.relative_to(root).parts[1]
    whole = tmp_path / "whole.s"
    libraries = [argument for argument in compile_ if argument.startswith("--rocm-device-lib-path=")]
    assert len(libraries) == 1
    call = [argument.replace("bazel-out/cfg/", f"bazel-out/{configuration}/") for argument in preprocess]
    call[call.index("-E")] = "-S"
    call[call.index("-o") + 1] = str(whole)
    call.remove("-nogpulib")
    subprocess.run([*call, *libraries], cwd=root, env={"PATH": "/nonexistent", "LANG": "C"}, check=True)
    assert len(split.read_text()) > 1000
    assert split.read_text() == whole.read_text()


@pytest.mark.slow
def test_same_bytes_from_another_directory_and_installation(row_sum: Built, tiny: Built, base: Path) -> None:
    project = copy_project(row_sum.project, base / "a b" / "rows of sums")
    tiny.driver.build(project, ROCM)
    assert digests(project / "build") == digests(row_sum.build, [ROCM]) != {}


def test_what_hipify_does_not_know_is_warned_of(row_sum: Built, base: Path) -> None:
    project = copy_project(row_sum.project, base / "left")
    source = project / "csrc" / "row_sum.cu"
    line = len(source.read_text().splitlines()) + 2
    source.write_text(source.read_text() + "\n#if 0\ncudaNoSuchFunction();\n#endif\n")
    done = row_sum.driver.run("build", project, f"--variant={ROCM}", "--warnings")
    warning = f"csrc/row_sum.cu:{line + 1}: warning: hipify has no HIP name for `cudaNoSuchFunction`"
    assert warning in done.stderr


def test_an_error_names_the_line_of_the_source(row_sum: Built, base: Path) -> None:
    project = copy_project(row_sum.project, base / "wrong")
    source = project / "csrc" / "row_sum.cu"
    source.write_text(source.read_text() + "int wrong = undeclared;\n")
    failed = row_sum.driver.run("build", project, f"--variant={ROCM}", code=5)
    assert "error[E401]" in failed.stderr
    line = len(source.read_text().splitlines())
    assert f"csrc/row_sum.cu:{line}:13: error: use of undeclared identifier 'undeclared'" in failed.stderr


def test_client_resolves_the_variant_of_a_torch_for_rocm(relu: Built) -> None:
    python = python_for([parse("torch213-cxx11-cpu-x86_64-linux")], Releases(), Output())
    for version, hip, expected in (
        ("2.13.0+rocm7.2", "7.2.53211-e1a6bc5663", ROCM),
        ("2.13.0+cpu", "", "torch213-cxx11-cpu-x86_64-linux"),
    ):
        code = _RESOLVE if hip else _RESOLVE.replace(", torch.version.hip = sys.argv[2:]", " = sys.argv[2]")
        command = [python, "-c", code, str(relu.build), version, *([hip] if hip else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout.split() == [expected], done.stdout + done.stderr
