"""The same bytes on every machine: other directories, another installation, another environment, another order."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from clone import (
    BINDING,
    CPU,
    CU130,
    TWO,
    Driver,
    action_counts,
    copy_project,
    cuda_actions,
    digests,
    hip_actions,
    make_cache,
    make_lean,
)

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Built

pytestmark = pytest.mark.e2e

_VARIANTS = (CPU, CU130)


def test_installed_driver_elsewhere_gives_the_same_bytes(lean: Built, alone: Built) -> None:
    assert action_counts(alone.result) == (1 + 2 * BINDING + cuda_actions(2), 0, 0)
    expected = digests(lean.build, _VARIANTS)
    assert len(expected) == 8
    assert digests(alone.build) == expected


def test_nothing_but_build_is_left_in_the_project(relu: Built, alone: Built, tmp_path: Path) -> None:
    source = copy_project(relu.project, tmp_path / "source")
    make_lean(source / "build.toml")
    before = digests(source)
    after = digests(alone.project)
    assert {name: value for name, value in after.items() if not name.startswith("build/")} == before
    expected = [*(path.name for path in source.iterdir()), "build"]
    assert sorted(path.name for path in alone.project.iterdir()) == sorted(expected)


def test_hostile_environment_gives_the_same_bytes(lean: Built, hostile: Built) -> None:
    assert action_counts(hostile.result) == (1 + 3 * BINDING + cuda_actions(2) + hip_actions(2), 0, 0)
    assert digests(hostile.build) == digests(lean.build)


def test_modes_of_files_do_not_depend_on_the_umask(lean: Built, hostile: Built) -> None:
    for path in hostile.build.rglob("*.*"):
        if path.is_file():
            assert path.stat().st_mode == (lean.build / path.relative_to(hostile.build)).stat().st_mode, path


def test_order_of_sources_in_the_manifest_does_not_matter(tiny: Built, base: Path) -> None:
    project = copy_project(tiny.project, base / "reordered")
    manifest = project / "build.toml"
    text = manifest.read_text()
    manifest.write_text(text.replace('["csrc/one.cpp", "csrc/one.h"]', '["csrc/one.h", "csrc/one.cpp"]'))
    assert manifest.read_text() != text
    tiny.driver.build(project, TWO)
    assert digests(project / "build") == digests(tiny.build)


def test_file_that_the_manifest_does_not_name_changes_nothing(tiny: Built) -> None:
    before = digests(tiny.build)
    (tiny.project / "csrc" / "notes.txt").write_text("not a source")
    assert action_counts(tiny.driver.build(tiny.project, TWO)) == (0, 0, 1 + 2 * BINDING + cuda_actions(1))
    assert digests(tiny.build) == before


@pytest.mark.slow
def test_one_job_and_eight_give_the_same_bytes(relu: Built, clone: Driver, base: Path) -> None:
    here = base / "one-job"
    cache = make_cache(here / "cache", {name: clone.cache / name for name in ("bazel", "store", "venvs")})
    project = copy_project(relu.project, here / "relu")
    driver = Driver(command=clone.command, root=clone.root, cache=cache, output=here / "output")
    expected = digests(relu.build, _VARIANTS)
    for jobs in (1, 8):
        shutil.rmtree(project / "build", ignore_errors=True)
        source = project / "torch-ext" / "relu" / "__init__.py"
        text = source.read_text()
        source.write_text(text + f"# {jobs}\n")
        driver.build(project, TWO, jobs=jobs)
        source.write_text(text)
        shutil.rmtree(cache / "actions")
        assert action_counts(driver.build(project, TWO, jobs=jobs))[0] > 0
        assert digests(project / "build") == expected
