"""Kernels that include CUTLASS: two sections of a project, each with the release that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from clone import BINDING, PROJECTS, Built, Driver, action_counts, copy_project, cuda_actions

from py_driver.matrix.releases import Releases

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_VARIANT = "torch-stable-abi29-cu130-x86_64-linux"


@pytest.fixture(scope="module")
def gemm(clone: Driver, base: Path) -> Built:
    """The project; static assertions in both sections say which release they see."""
    project = copy_project(PROJECTS / "gemm", base / "gemm")
    return Built(driver=clone, project=project, result=clone.build(project, _VARIANT))


def test_each_section_sees_its_own_release(gemm: Built) -> None:
    assert action_counts(gemm.result) == (1 + BINDING + cuda_actions(1), 0, 0)
    [library] = (gemm.build / _VARIANT).glob("*.so")
    content = library.read_bytes()
    assert b"cutlass" in content
    assert b"torch_kernels_cutlass" not in content


def test_only_what_is_named_is_fetched(gemm: Built) -> None:
    places = gemm.driver.output.glob("*/external/*torch_kernels_cutlass_*")
    assert {path.name.partition("torch_kernels_")[2] for path in places if path.is_dir()} == {
        "cutlass_3_5",
        "cutlass_3_6",
    }


def test_without_a_section_that_names_it_nothing_sees_it(gemm: Built, base: Path) -> None:
    project = copy_project(gemm.project, base / "none")
    manifest = project / "build.toml"
    text = manifest.read_text().replace('depends = ["cutlass_3_5"]', "depends = []")
    manifest.write_text(text.replace('depends = ["cutlass_3_6"]', "depends = []"))
    wrong = gemm.driver.run("build", project, "--variant", _VARIANT, code=5)
    assert "'cutlass/version.h' file not found" in wrong.stderr


def test_every_release_of_the_lock_is_the_one_that_its_name_says(gemm: Built, base: Path) -> None:
    project = copy_project(gemm.project, base / "releases")
    manifest = project / "build.toml"
    head, _, _ = manifest.read_text().partition("[kernel.gemm]")
    sections = [head.replace('stable-abi = "2.9"\n', "")]
    for name, release in Releases().lock.libraries.items():
        major, minor, patch = release["release"].split(".")
        wanted = f"CUTLASS_MAJOR == {major} && CUTLASS_MINOR == {minor} && CUTLASS_PATCH == {patch}"
        source = project / "csrc" / f"{name}.cpp"
        source.write_text(f'#include "cutlass/version.h"\nstatic_assert({wanted}, "{name}");\n')
        sections.append(f'[kernel.{name}]\nbackend = "cuda"\ndepends = ["{name}"]\nsrc = ["csrc/{name}.cpp"]\n')
    manifest.write_text("\n".join(sections))
    (project / "torch-ext" / "torch_binding.cpp").write_text(
        '#include "registration.h"\n\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n'
    )
    gemm.driver.run("build", project, "--variant", "torch213-*-cu130-*")
