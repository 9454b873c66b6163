"""Sources that are compiled with a precompiled header of torch's: the same objects, and no header where it could matter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from clone import PROJECTS, Driver, another, copy_project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

USED = {"binding", "types"}
WITHOUT = {"included", "later", "reopened", "specialised"}
"""What stands before the header, another header that opens its namespaces, a namespace of it, a specialisation."""

MORE = {
    "a.cpp": "#include <torch/extension.h>\nint a() { return 1; }\n",
    "b.cpp": '#include <torch/extension.h>\n#include <cstring>\nsize_t b() { return std::strlen(__FILE__) + __COUNTER__; }\n',
    "c.cpp": "#pragma once\n#include <torch/extension.h>\nauto c(at::Tensor x) { return x.accessor<float, 2>()[0][1]; }\n"
    "float d(at::Tensor x) { return c(x); }\n",
    "e.cpp": "#include <torch/extension.h>\nstruct E : torch::autograd::Function<E> {\n"
    "  static at::Tensor forward(torch::autograd::AutogradContext* c, at::Tensor x) { c->save_for_backward({x}); return x * 2; }\n"
    "  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* c, torch::autograd::variable_list g) {\n"
    "    return {g[0] * c->get_saved_variables()[0]};\n  }\n};\nat::Tensor e(at::Tensor x) { return E::apply(x); }\n",
    "f.cpp": "#include <torch/extension.h>\nstatic std::vector<int> list{1, 2};\ninline int twice(int x) { return 2 * x; }\n"
    "int f() { int n = 0; for (int x : list) n += twice(x); return n; }\n",
}
"""For the slow test: a pragma, macros of the preprocessor, accessors, autograd, variables with constructors."""


def objects(clone: Driver, project: Path, *options: str) -> dict[str, tuple[bytes, str]]:
    """The object of each source, and which of torch's headers were read for it."""
    clone.run("run", project, "--json", "--torch=2.13", *options)
    name, found = project.name, {}
    paths = clone.output.glob(f"*/execroot/_main/bazel-out/*/bin/projects/{name}/*.objects/*.cpp.o")
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
    setup.write_text(setup.read_text().replace('["binding.cpp", ', json.dumps(["binding.cpp", *MORE])[:-1] + ", "))
    for name, text in MORE.items():
        (project / name).write_text(text)
    few = objects(clone, project)
    assert {name for name, (_, told) in few.items() if "precompiled" in told} == USED | {name[0] for name in MORE}
    full = objects(clone, project, "--headers", "full")
    assert [name for name in few if few[name][0] != full[name][0]] == []
    elsewhere = another(clone, base / "precompiled-elsewhere")
    assert objects(elsewhere, project) == few
    assert header(elsewhere) == header(clone)


def header(driver: Driver) -> bytes:
    """The precompiled header, which has no name of a directory in it."""
    [path] = driver.output.glob("*/execroot/_main/bazel-out/*/bin/external/*/rules/private/include/precompiled.pch")
    return path.read_bytes()
