"""A Hub, and a built project to publish to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import tuned
from hub import Hub, served

from py_driver.system.cache import CACHE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def hub() -> Iterator[Hub]:
    with served() as hub:
        yield hub


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    project = tmp_path / "tuned"
    package = project / "torch-ext" / "tuned"
    package.mkdir(parents=True)
    (project / "build.toml").write_text(tuned.MANIFEST)
    for name in ("__init__.py", "weights.bin"):
        (package / name).write_bytes(tuned.FILES[name])
    for variant in ("torch-cpu", "torch-cuda"):
        tuned.build(project, variant, tuned.FILES)
    return project


@pytest.fixture
def odd(project: Path) -> Path:
    """The project with data files of odd names, built."""
    for name, content in tuned.ODD.items():
        (project / "torch-ext" / "tuned" / name).write_bytes(content)
    for variant in ("torch-cpu", "torch-cuda"):
        tuned.build(project, variant, tuned.FILES | tuned.ODD)
    return project
