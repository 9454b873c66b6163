"""docs/ops.md: its project built, and its tests run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from clone import CPU
from pages import files
from tree import write_files

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def project(base: Path) -> Path:
    return write_files(base / "ops", files("docs/ops.md")) / "square"


@pytest.mark.slow
def test_the_tests_of_the_page_pass(clone: Driver, project: Path) -> None:
    assert " valid: edition 5" in clone.run("check", project).stderr
    assert "= 5 passed" in clone.run("test", project, "--torch=2.13").stdout


@pytest.mark.slow
def test_the_project_of_the_page_is_built_for_cuda(clone: Driver, project: Path) -> None:
    variant = CPU.replace("cpu", "cu130")
    result = json.loads(clone.run("build", project, f"--variant={variant}", "--archs=9.0", "--json").stdout)
    assert [built["variant"] for built in result["variants"]] == [variant]
