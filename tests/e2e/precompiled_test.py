"""Sources that are compiled with a precompiled header of torch's: the same objects, and no header where it matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from clone import PROJECTS, Driver, another, copy_project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

USED = {"binding", "types"}
WITHOUT = {"included", "later", "reopened", "specialised"}
"""What stands before the header, another header that opens its namespaces, a namespace of it, a specialisation."""

MORE = {"accessors", "dispatched", "gradients", "libraries", "macros", "plain", "variables"}
"""The sources in `more`: a pragma, autograd, dispatch, TORCH_LIBRARY, macros, variables with constructors."""


def objects(clone: Driver, project: Path, *options: str) -> dict[str, tuple[bytes, str]]:
    """The object of each source, and which of torch's headers were read for it."""
    clone.run("run", project, "--json", "--torch=2.13", *options)
    name, found = project.name, {}
    paths = clone.output.glob(f"*/execroot/_main/bazel-out/*/bin/projects/{name}/*.objects/**/*.cpp.o")
    # Each configuration has a directory of its own; the newest counts.
    for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns):
        told = path.with_suffix(".phases") / "headers.txt"
        found[path.name.partition(".")[0]] = (path.read_bytes(), told.read_text() if told.is_file() else "")
    return found


def test_objects_are_those_of_all_headers(clone: Driver, base: Path) -> None:
    project = copy_project(PROJECTS / "precompiled", base / "precompiled")
    few = objects(clone, project)
    assert {name for name, (_, told) in few.items() if "precompiled" in told} == USED
    assert few.keys() == USED | WITHOUT
    full = objects(clone, project, "--headers", "full")
    assert [name for name in few if few[name][0] != full[name][0]] == []


@pytest.mark.slow
def test_objects_of_more_sources(clone: Driver, base: Path) -> None:
    project = copy_project(PROJECTS / "precompiled", base / "more" / "precompiled")
    setup = project / "setup.py"
    more = "".join(f'"more/{name}.cpp", ' for name in sorted(MORE))
    setup.write_text(setup.read_text().replace('"binding.cpp", ', f'"binding.cpp", {more}'))
    few = objects(clone, project)
    assert {name for name, (_, told) in few.items() if "precompiled" in told} == USED | MORE
    full = objects(clone, project, "--headers", "full")
    assert [name for name in few if few[name][0] != full[name][0]] == []
    elsewhere = another(clone, base / "precompiled-elsewhere")
    assert objects(elsewhere, project) == few
    assert header(elsewhere) == header(clone)


def header(driver: Driver) -> bytes:
    """The precompiled header, which has no name of a directory in it."""
    [path] = driver.output.glob("*/execroot/_main/bazel-out/*/bin/external/*/rules/private/include/precompiled.pch")
    return path.read_bytes()
