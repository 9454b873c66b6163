"""`driver size` on variants that are really built: its sums, what it promises of compression, what it compares."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU, CU130, ROCM

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

ARCHS = '["8.0", "8.6", "8.9", "9.0", "10.0", "12.0+PTX"]'
MORE_ARCHS = '["8.0", "8.6", "10.0", "10.3", "12.0+PTX"]'
FATBIN = ".nv_fatbin"


@pytest.fixture(scope="module")
def project(clone: Driver, base: Path) -> Path:
    place = base / "size" / "relu"
    shutil.copytree(clone.root / "examples" / "relu", place, ignore=shutil.ignore_patterns("BUILD.bazel", "build"))
    manifest = place / "build.toml"
    text = manifest.read_text(encoding="utf-8")
    assert ARCHS in text
    manifest.write_text(text.replace(ARCHS, MORE_ARCHS), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def builds(clone: Driver, project: Path) -> dict[str, Path]:
    """The CUDA variant with each compression."""
    found = {}
    for choice in ("none", "balance", "size"):
        clone.run("build", project, f"--variant={CU130}", f"--compress={choice}")
        found[choice] = shutil.copytree(project / "build" / CU130, project.parent / choice / CU130)
    return found


def told(clone: Driver, *words: str | Path, code: int = 0) -> Any:  # noqa: ANN401  (JSON)
    return json.loads(clone.run("size", *words, "--json", code=code).stdout)


def stored(result: dict[str, Any], table: str, name: str) -> int:
    [group] = [group for group in result[table] if group["name"] == name]
    return int(group["stored"])


def test_compression_saves_what_was_promised(clone: Driver, builds: dict[str, Path]) -> None:
    results = {choice: told(clone, path) for choice, path in builds.items()}
    for choice, path in builds.items():
        [library] = path.glob("*.so")
        assert results[choice]["bytes"] == library.stat().st_size
        assert sum(group["stored"] for group in results[choice]["sections"]) == library.stat().st_size
        packing = {image["packing"] for image in results[choice]["libraries"][0]["images"]}
        assert packing == ({""} if choice == "none" else {"Zstandard"})
    savings = {saving["subject"]: saving for saving in results["none"]["savings"] if saving["kind"] == "compression"}
    assert {*savings} == {"balance", "size"}
    for choice, saving in savings.items():
        assert "fatbinary of CUDA 13.0" in saving["how"]
        saved = stored(results["none"], "sections", FATBIN) - stored(results[choice], "sections", FATBIN)
        assert saving["bytes"] == saved > 10_000
    [more] = [saving for saving in results["balance"]["savings"] if saving["kind"] == "compression"]
    assert more["subject"] == "size"
    assert more["bytes"] == savings["size"]["bytes"] - savings["balance"]["bytes"]
    assert not [saving for saving in results["size"]["savings"] if saving["kind"] == "compression"]


def test_kernels_are_the_same_however_they_are_compressed(clone: Driver, builds: dict[str, Path]) -> None:
    sizes = [{group["name"]: group["size"] for group in told(clone, path)["instances"]} for path in builds.values()]
    assert sizes[0] == sizes[1] == sizes[2]
    names = [name for name in sizes[0] if "relu_kernel<" in name]
    assert sorted(name.partition("<")[2] for name in names) == ["__half>", "__nv_bfloat16>", "float>"]
    [kernel] = [group for group in told(clone, builds["none"])["kernels"] if group["name"].endswith("relu_kernel")]
    assert kernel["members"] == 3
    assert kernel["size"] == sum(sizes[0][name] for name in names)


def test_what_other_architectures_would_save(clone: Driver, builds: dict[str, Path]) -> None:
    result = told(clone, builds["none"])
    savings = {(saving["kind"], saving["subject"]): saving for saving in result["savings"]}
    for arch in ("8.0", "8.6", "10.0", "10.3"):
        assert savings["arch", arch]["bytes"] == stored(result, "archs", arch)
    assert "run the machine code for 8.0" in savings["arch", "8.6"]["how"]
    assert "have no code" in savings["arch", "8.0"]["how"]
    assert savings["ptx", "12.0"]["bytes"] > 0
    pair = [stored(result, "archs", arch) for arch in ("10.0", "10.3")]
    assert savings["family", "10.0f"]["bytes"] == min(pair)


def test_two_builds_are_compared(clone: Driver, builds: dict[str, Path], project: Path) -> None:
    changed = told(clone, builds["size"], "--compare", builds["none"], code=1)
    assert {change["verdict"] for change in changed["instances"]} == {"same"}
    [section] = [change for change in changed["sections"] if change["name"] == FATBIN]
    assert section["verdict"] == "shrank"
    assert told(clone, builds["none"], "--compare", builds["none"])["difference"] == 0
    clone.run("build", project, f"--variant={CPU}")
    host = project / "build" / CPU
    changed = told(clone, host, "--compare", builds["none"], code=1)
    assert {change["verdict"] for change in changed["archs"]} == {"removed"}
    shown = clone.run("size", host).stdout
    assert "\nfunction " in shown
    assert "relu" in shown


@pytest.mark.slow
def test_a_code_object_of_hip_has_kernels(clone: Driver, project: Path) -> None:
    clone.run("build", project, f"--variant={ROCM}", "--archs=gfx90a,gfx942")
    result = told(clone, project / "build" / ROCM)
    assert [(group["name"], group["kind"]) for group in result["archs"]] == [("gfx90a", "AMDGPU"), ("gfx942", "AMDGPU")]
    [kernel] = [group for group in result["kernels"] if group["name"].endswith("relu_kernel")]
    assert kernel["members"] == 3
    assert kernel["archs"] == ["gfx90a", "gfx942"]
    assert kernel["exact"]


def test_a_project_and_its_picture(clone: Driver, project: Path, builds: dict[str, Path]) -> None:
    assert builds
    picture = project.parent / "relu.svg"
    clone.run("size", project, "--svg", picture, "--by", "arch")
    assert "relu_kernel" in picture.read_text(encoding="utf-8")
