"""Files of all kinds of names: built, and in the variant under the very names that they have in the project."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, Built, action_counts, copy_project
from kernels._rust import Digest, DigestAlgorithm  # type: ignore[import-untyped]

from py_driver.building.variant_dir import files_of
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory
from py_driver.publishing.release import read_variants

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def names(clone: Driver, base: Path) -> Built:
    """The project of such names, built outside of the repository of the rules."""
    project = copy_project(PROJECTS / "names", base / "names")
    return Built(driver=clone, project=project, result=clone.build(project, CPU))


def test_variant_has_the_names_and_the_bytes_of_the_project(names: Built) -> None:
    package = {name: path.read_bytes() for name, path in files_of(names.project / "torch-ext" / "names").items()}
    built = {name: path.read_bytes() for name, path in files_of(names.build / CPU).items()}
    metadata = json.loads(built["metadata.json"])
    assert {name: built[name] for name in package} == package
    assert built.keys() - package.keys() == {"_ops.py", "metadata.json", f"{metadata['id']}.abi3.so"}
    assert len(package) == 6


def test_digests_are_those_of_the_client(names: Built) -> None:
    place = names.build / CPU
    stated = json.loads((place / "metadata.json").read_text(encoding="utf-8"))["digest"]
    computed = Digest.hash_variant(DigestAlgorithm.SHA256, place)
    assert stated == {"algorithm": "sha256", "files": dict(computed.files)}
    assert list(stated["files"]) == sorted(stated["files"])


def test_what_was_built_may_be_published(names: Built) -> None:
    plan = plan_directory(names.project, Releases())
    [built] = read_variants(names.project, plan, [variant for variant in plan.variants if variant.name == CPU])
    assert len(built.files) == 9


def test_second_build_changes_nothing(names: Built) -> None:
    before = {name: path.stat().st_mtime_ns for name, path in files_of(names.build / CPU).items()}
    assert action_counts(names.driver.build(names.project, CPU))[0] == 0
    assert {name: path.stat().st_mtime_ns for name, path in files_of(names.build / CPU).items()} == before


def test_a_project_of_the_repository_is_built_without_a_build_file(names: Built, clone: Driver) -> None:
    project = copy_project(PROJECTS / "names", clone.root / "scratch" / "names")
    assert "BUILD.bazel cannot list `torch-ext/names/" in clone.run("gen", project, code=2).stderr
    clone.build(project, CPU)
    made, other = (
        {name: path.read_bytes() for name, path in files_of(directory / "build" / CPU).items()}
        for directory in (project, names.project)
    )
    assert made == other
