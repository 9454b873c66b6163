"""Upstream's example projects, rewritten from their descriptions: those in tests/e2e/projects/upstream."""

from __future__ import annotations

import shutil
from pathlib import Path

_PROJECTS = Path(__file__).parents[1] / "e2e" / "projects" / "upstream"
_COMMON = _PROJECTS / "common"

EXAMPLES = tuple(sorted(path.parent.name for path in _PROJECTS.glob("*/build.toml")))
"""The names of the projects."""


def write_example(name: str, to: Path) -> Path:
    """Write a project, with the shared files unless it has its own, and return its directory."""
    project = to / name
    shutil.copytree(_PROJECTS / name, project)
    package = project / "torch-ext" / name.replace("-", "_") / "__init__.py"
    manifest = (project / "build.toml").read_text(encoding="utf-8")
    shared = {path.relative_to(_COMMON): path for path in _COMMON.rglob("*") if path.suffix in {".cpp", ".cu", ".h"}}
    if "relu_cuda/relu.cu" in manifest:
        shared |= {path.relative_to(_COMMON): path for path in _COMMON.glob("tests/*.py")}
    if "[torch]" in manifest:
        places = {**{project / path: source for path, source in shared.items()}, package: _COMMON / "package.py"}
        for place, source in places.items():
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, place)
    return project
