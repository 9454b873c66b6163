"""Sources that include torch's umbrella headers: fewer of these are read, and the same comes out."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from clone import BINDING, CU130, PROJECTS, Built, Driver, action_counts, copy_project, digests, torch_actions
from halves import whole_and_halves

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_INCOMPLETE = """\
#include <torch/all.h>

#define JOIN(a, b) a##b

__global__ void zero(float* out) { *out = 0; }

int64_t inputs(const at::Tensor& in) {
  zero<<<1, 1>>>(in.data_ptr<float>());
  return in.JOIN(grad_, fn)()->num_inputs();
}
"""
"""For the GPU it needs the definition of a type that it does not name."""
_PAIRS = (
    "torch24-cxx11-cu118",
    "torch25-cxx11-cu124",
    "torch26-cxx11-cu124",
    "torch27-cxx11-cu118",
    "torch29-cxx11-cu130",
    "torch210-cxx11-cu130",
    "torch211-cxx11-cu130",
    "torch212-cxx11-cu132",
    "torch213-cxx11-cu130",
    "torch213-cxx11-cu132",
    "torch214-cxx11-cu130",
    "torch215-cxx11-cu135",
)
"""Each torch release and each CUDA whose nvcc comes in a package; torch 2.8 has no such CUDA."""
_FAILED = "it does not compile with fewer headers"
_EVERY = "RULES_TORCH_KERNELS_ALL_HEADERS"
"""If this is set, the slow test takes all sources for each pair, for which it needs hours."""


_LONG = 7200


def _with(project: Path, names: list[str], archs: str = '"9.0"') -> None:
    """Make the project one of some of its sources."""
    manifest = project / "build.toml"
    text = re.sub(r'    "csrc/(\w+)\.cu",\n', lambda found: found[0] if found[1] in names else "", manifest.read_text())
    manifest.write_text(text.replace('cuda-capabilities = ["9.0"]', f"cuda-capabilities = [{archs}]"))
    for path in (project / "csrc").glob("*.cu"):
        if path.stem not in names:
            path.unlink()


def _phase(driver: Driver, source: str, name: str) -> Path:
    """The newest file of a phase of a source of the project `headers`."""
    found = driver.output.glob(
        f"*/execroot/_main/bazel-out/*/bin/projects/headers/*.objects/csrc/{source}.cu.phases/{name}"
    )
    return max(found, key=lambda path: path.stat().st_mtime)


def _told(report: Path) -> dict[str, Any]:
    """Which of torch's headers each source was compiled with, by a build report."""
    return {source["source"]: source["torch"] for source in json.loads(report.read_text())["sources"]}


@pytest.fixture(scope="module")
def needed(clone: Driver, base: Path) -> Built:
    """Two sources for two architectures; one of them does not compile with the headers that its words need."""
    project = copy_project(PROJECTS / "headers", base / "headers")
    (project / "csrc" / "types.cu").write_text(_INCOMPLETE)
    _with(project, ["dispatch", "types"], '"8.6", "8.7"')
    said = clone.run("build", project, "--json", f"--variant={CU130}", "--report", base / "headers.html").stdout
    return Built(driver=clone, project=project, result=json.loads(said))


def test_fewer_headers_make_the_same_bytes(needed: Built, base: Path) -> None:
    assert action_counts(needed.result) == (BINDING + 2 * torch_actions(2), 0, 0)
    # All phases of one source worked with fewer headers, and at least one of the other one did not.
    assert _phase(needed.driver, "dispatch", "host.o").stat().st_size > 0
    assert _phase(needed.driver, "types", "fatbin.o").stat().st_size == 0
    few = _phase(needed.driver, "dispatch", "host.ii").stat().st_size
    made = []
    for headers in ("needed", "full"):
        project = copy_project(needed.project, base / f"headers-{headers}")
        _with(project, ["dispatch"])  # the other one was compiled with all headers already
        needed.driver.run("build", project, "--variant", CU130, "--headers", headers)
        made.append(digests(project / "build"))
    assert made[0] == made[1]
    assert _phase(needed.driver, "dispatch", "host.ii").stat().st_size > 1.5 * few


def test_the_report_says_which_headers_did(needed: Built, base: Path) -> None:
    assert _told(base / "headers.json") == {
        "csrc/dispatch.cu": [{"section": "headers", "variants": [CU130], "read": "needed", "why": ""}],
        "csrc/types.cu": [{"section": "headers", "variants": [CU130], "read": "all", "why": _FAILED}],
        "torch-ext/torch_binding.cpp": [{"section": "binding_cuda", "variants": [CU130], "read": "needed", "why": ""}],
    }
    assert f"compiled with all headers: {_FAILED}." in (base / "headers.html").read_text()
    assert needed.result["variants"]


def test_equal_text_is_read_once(needed: Built) -> None:
    assert _phase(needed.driver, "dispatch", "87/device.ii").read_bytes() == b"same as 86"
    bitcode = [_phase(needed.driver, "dispatch", f"{arch}/device.bc").read_bytes() for arch in (86, 87)]
    assert len(bitcode[0]) > 10_000
    assert bitcode[0] == bitcode[1]
    for arch in (86, 87):
        assert f".target sm_{arch}" in _phase(needed.driver, "dispatch", f"{arch}/device.ptx").read_text()


def test_errors_are_those_of_all_headers(needed: Built, base: Path) -> None:
    project = copy_project(needed.project, base / "headers-wrong")
    source = project / "csrc" / "dispatch.cu"
    source.write_text(source.read_text() + "void wrong(const at::Tensor& in) { nobody::knows(in); }\n")
    (project / "csrc" / "types.cu").unlink()
    manifest = project / "build.toml"
    manifest.write_text(manifest.read_text().replace('    "csrc/types.cu",\n', ""))
    said = needed.driver.run("build", project, "--variant", CU130, code=5).stderr
    line = len(source.read_text().splitlines())
    assert re.findall(r"dispatch\.cu:(\d+)(?::\d+)?: error: (.*)", said) == [
        (str(line), 'name followed by "::" must be a class or namespace name')
    ]


@pytest.mark.parametrize("options", [(), ("-lineinfo",), ("--use_fast_math",)], ids=str)
@pytest.mark.parametrize("arch", ["80", "90a", "100"])
def test_halves_of_cicc_make_what_it_makes(needed: Built, tmp_path: Path, arch: str, options: tuple[str, ...]) -> None:
    bitcode = []
    for directory in (tmp_path / "a", tmp_path / "another" / "directory"):
        directory.mkdir(parents=True)
        whole, half = whole_and_halves(needed.driver, "13.0", directory, arch, *options)
        assert b".target sm_" in whole
        assert half == whole
        bitcode.append((directory / "half.bc").read_bytes())
    assert bitcode[0] == bitcode[1]


@pytest.mark.slow
@pytest.mark.timeout(2 * _LONG)
@pytest.mark.parametrize("pair", _PAIRS)
def test_every_source_is_the_same_with_fewer_headers(needed: Built, base: Path, pair: str) -> None:
    """Each release of torch and CUDA with a part of the sources, so that all of them have a turn."""
    names = sorted(path.stem for path in (PROJECTS / "headers" / "csrc").glob("*.cu"))
    if not os.environ.get(_EVERY):
        names = names[_PAIRS.index(pair) :: len(_PAIRS)]
    made = []
    for headers in ("needed", "full"):
        project = copy_project(PROJECTS / "headers", base / pair / headers / "headers")
        arch = "8.0" if pair.endswith("cu118") else "9.0"
        _with(project, names, f'"{arch}"')
        report = base / pair / f"{headers}.html"
        words = ("--variant", f"{pair}-*", "--headers", headers, "--report", report)
        needed.driver.run("build", project, *words, seconds=_LONG)
        made.append(digests(project / "build"))
    assert made[0] == made[1]
    # A source that was compiled again with all headers proves nothing about fewer.
    few = {source: {entry["read"] for entry in told} for source, told in _told(base / pair / "needed.json").items()}
    sources = [*(f"csrc/{name}.cu" for name in names), "torch-ext/torch_binding.cpp"]
    assert few == {source: {"needed"} for source in sources}
