"""`driver check --headers`: smaller headers of torch, found by compiling, and written into the sources with `--fix`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, copy_project, digests

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_BY_NAME = """\
#include <torch/all.h>  // at::Tensor

at::Tensor doubled(const at::Tensor& in) { return at::mul(in, 2); }
"""
_WRITTEN = _BY_NAME.replace("<torch/all.h>", "<ATen/core/Tensor.h>\n#include <ATen/ops/mul.h>")
_BY_NAMESPACE = """\
#include <vector>
#include <torch/all.h>

torch::Tensor sum(const std::vector<torch::Tensor>& all) { return torch::stack(all).sum(0); }
"""
_BY_OPERATOR = """\
#include <torch/all.h>

at::Tensor added(const at::Tensor& a, const at::Tensor& b) { return a + b; }
"""
"""No name says which header it needs, so the first round fails, and the others have run in that."""
_MANIFEST = """
[kernel.more]
backend = "cpu"
depends = ["torch"]
src = ["csrc/by_name.cpp", "csrc/by_namespace.cpp", "csrc/by_operator.cpp"]
"""


@pytest.fixture(scope="module")
def project(base: Path) -> Path:
    project = copy_project(PROJECTS / "tiny", base / "smaller")
    (project / "csrc" / "by_name.cpp").write_text(_BY_NAME)
    (project / "csrc" / "by_namespace.cpp").write_text(_BY_NAMESPACE)
    (project / "csrc" / "by_operator.cpp").write_text(_BY_OPERATOR)
    manifest = project / "build.toml"
    text = manifest.read_text().replace('backends = ["cpu", "cuda"]', 'backends = ["cpu"]')
    manifest.write_text(text.partition("[kernel.two]")[0] + _MANIFEST)
    return project


@pytest.fixture
def one(project: Path, tmp_path: Path) -> Path:
    """A copy of the project in which only the first of the sources is compiled."""
    one = copy_project(project, tmp_path / "one")
    manifest = one / "build.toml"
    manifest.write_text(manifest.read_text().replace(', "csrc/by_namespace.cpp", "csrc/by_operator.cpp"', ""))
    return one


@pytest.mark.slow
def test_smaller_headers_of_one_source_are_written(clone: Driver, one: Path) -> None:
    said = clone.run("check", one, "--headers", "--fix").stderr
    assert f"{one}/csrc/by_name.cpp:1: <torch/all.h> -> <ATen/core/Tensor.h>, <ATen/ops/mul.h>" in said
    assert (one / "csrc" / "by_name.cpp").read_text() == _WRITTEN
    assert (one / "csrc" / "by_namespace.cpp").read_text() == _BY_NAMESPACE
    assert len(clone.build(one, CPU)["variants"]) == 1


@pytest.mark.slow
def test_smaller_headers_are_found_and_written(clone: Driver, project: Path) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    found = json.loads(clone.run("check", project, "--headers", "--json").stdout)["headers"]
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    instead = ["ATen/core/Tensor.h", "ATen/ops/mul.h"]
    assert found["edits"] == [
        {"file": "csrc/by_name.cpp", "line": 1, "header": "torch/all.h", "instead": instead},
        {"file": "csrc/by_namespace.cpp", "line": 2, "header": "torch/all.h", "instead": ["torch/types.h"]},
        {"file": "csrc/by_operator.cpp", "line": 1, "header": "torch/all.h", "instead": ["ATen/ATen.h"]},
    ]
    for gain in found["gains"]:
        assert gain["before"]["arch"] == gain["after"]["arch"] == 0
        assert 0 < gain["after"]["rest"] < 0.9 * gain["before"]["rest"]
    assert [gain["source"] for gain in found["gains"]] == [edit["file"] for edit in found["edits"]]

    said = clone.run("check", project, "--headers", "--fix").stderr
    assert f"{project}/csrc/by_name.cpp:1: <torch/all.h> -> <ATen/core/Tensor.h>, <ATen/ops/mul.h>" in said
    assert (project / "csrc" / "by_name.cpp").read_text() == _WRITTEN
    assert (project / "csrc" / "by_namespace.cpp").read_text() == _BY_NAMESPACE.replace("all.h", "types.h")
    assert (project / "csrc" / "by_operator.cpp").read_text() == _BY_OPERATOR.replace("torch/all.h", "ATen/ATen.h")
    assert len(clone.build(project, CPU)["variants"]) == 1


def test_what_does_not_compile_is_an_error(clone: Driver, one: Path) -> None:
    source = one / "csrc" / "by_name.cpp"
    source.write_text("#include <torch/all.h>\nat::Tensor wrong() { return nobody(); }\n")
    said = clone.run("check", one, "--headers", code=5).stderr
    assert f"{source}:2:" in said
    assert "nobody" in said


@pytest.mark.slow
def test_what_does_not_compile_leaves_all_as_it_is(clone: Driver, project: Path, tmp_path: Path) -> None:
    wrong = copy_project(project, tmp_path / "wrong")
    source = wrong / "csrc" / "by_operator.cpp"
    source.write_text("#include <torch/all.h>\nat::Tensor wrong() { return nobody(); }\n")
    before = digests(wrong / "csrc")
    said = clone.run("check", wrong, "--headers", "--fix", code=5).stderr
    assert f"{source}:2:" in said
    assert "by_name.cpp:" not in said
    assert digests(wrong / "csrc") == before
