"""nvcc phase by phase: the same code as nvcc as a whole, and what is compiled again after which change."""

from __future__ import annotations

import json
import re
import shutil
import struct
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from clone import (
    BINDING,
    CU130,
    PROJECTS,
    Built,
    Driver,
    action_counts,
    copy_project,
    cuda_actions,
    digests,
    make_cache,
    planned,
    torch_actions,
)
from dry_runs import expect_known_commands
from halves import whole_and_halves

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_SPLIT = ("torch25-cxx11-cu118", "torch25-cxx11-cu124", "torch213-cxx11-cu132", "torch215-cxx11-cu135")
_ALL = cuda_actions(2)
_OPTIONS = (
    (),
    ("-lineinfo", "--maxrregcount=32"),
    ("--use_fast_math", "--expt-extended-lambda", "--expt-relaxed-constexpr", "--fmad=false", "-std=c++17"),
    ("-G", "-g"),
    ("--diag-suppress=177", "--restrict", "--Werror=all-warnings"),
)
"""Of nvcc, with which cicc as a whole and its halves are compared."""
_FLAG = "--//rules/settings:cuda_compile=monolithic"


@pytest.fixture(scope="module")
def phases(relu: Built, base: Path) -> Built:
    project = copy_project(PROJECTS / "phases", base / "phases")
    return Built(driver=relu.driver, project=project, result=relu.driver.build(project, CU130))


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def _sections(library: Path) -> dict[str, bytes]:
    """The content of the sections that are loaded, by name; layout: System V ABI, chapter 4."""
    data = library.read_bytes()
    (start,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQ", data, start + 64 * i) for i in range(count)]
    found = {}
    for name, kind, flags, _, offset, size in headers:
        at = headers[names][4] + name
        if flags & 2 and kind != 8:
            found[data[at : data.index(b"\0", at)].decode()] = data[offset : offset + size]
    return found


def _built_both_ways(clone: Driver, variant: str) -> list[dict[str, bytes]]:
    """The loaded sections of a variant's extension, compiled split and as a whole, for the same architectures."""
    root = clone.root / "examples" / "phases"
    if not root.exists():
        copy_project(PROJECTS / "phases", root)
        clone.run("gen", root)
        build = root / "BUILD.bazel"
        text = re.sub(r'(name = "(?:cub|internal)",)', r"\1\n    own_arch_list = True,", build.read_text())
        assert text.count("own_arch_list") == 2
        build.write_text(text)
    label = f"//examples/phases:{variant}"
    found = []
    for options in ([], [_FLAG]):
        clone.bazel("build", *options, label)
        query = f'mnemonic("Cuda.*|KernelCudaCompile", deps({label}))'
        actions = json.loads(clone.bazel("aquery", *options, "--output=jsonproto", "--noinclude_artifacts", query))
        assert len(actions["actions"]) == (3 if options else 3 * _ALL)
        [library] = clone.place(label, *options).glob("*.so")
        found.append(_sections(library))
    return found


def _expect_the_same_code(clone: Driver, variant: str) -> None:
    split, whole = _built_both_ways(clone, variant)
    assert len(split[".nv_fatbin"]) > 2_000
    assert split == whole


def test_phases_make_the_code_that_nvcc_makes(phases: Built) -> None:
    _expect_the_same_code(phases.driver, CU130)


@pytest.mark.slow
@pytest.mark.parametrize("variant", _SPLIT)
def test_phases_of_every_nvcc_make_the_code_that_it_makes(phases: Built, variant: str, tmp_path: Path) -> None:
    _expect_the_same_code(phases.driver, f"{variant}-x86_64-linux")
    expect_known_commands(phases.driver, _version(variant), tmp_path)
    for arch in ("80", "90") if _version(variant) < "13" else ("80", "90a", "100", "120f"):
        for options in _OPTIONS:
            whole, halves = whole_and_halves(phases.driver, _version(variant), tmp_path, arch, *options)
            assert f".target sm_{arch}".encode() in whole
            assert halves == whole


@pytest.mark.slow
def test_device_debug_names_no_directory(phases: Built, base: Path) -> None:
    """An action works in another directory without a hermetic sandbox; debug sections do not tell."""
    clone = phases.driver
    root = copy_project(PROJECTS / "phases", clone.root / "examples" / "debugged")
    clone.run("gen", root)
    build = root / "BUILD.bazel"
    build.write_text(re.sub(r'(name = "(?:cub|internal)",)', r'\1\n    cuda_flags = ["-G", "-g"],', build.read_text()))
    label = f"//examples/debugged:{CU130}"
    found = []
    for strategy in ("linux-sandbox", "processwrapper-sandbox"):
        clone.bazel("build", "--disk_cache=", f"--spawn_strategy={strategy},processwrapper-sandbox", label)
        place = clone.place(label)
        objects = list(place.parents[4].glob("*/bin/examples/debugged/*.objects"))
        parts = [path for made in objects for path in made.rglob("*.o")]
        assert len(parts) > 6
        named = [path.name for path in parts if str(base).encode() in path.read_bytes()]
        assert named == []
        found.append([digests(place), *(digests(made) for made in sorted(objects))])
        for made in objects:
            shutil.rmtree(made)
    assert found[0] == found[1]


def _version(variant: str) -> str:
    """The CUDA release of `torch213-cxx11-cu130`."""
    number = variant.partition("-cu")[2].split("-")[0]
    return f"{number[:2]}.{number[2:]}"


def test_nvcc_runs_the_known_commands(phases: Built, tmp_path: Path) -> None:
    expect_known_commands(phases.driver, _version(CU130), tmp_path)


def test_each_phase_is_an_action(phases: Built) -> None:
    assert action_counts(phases.result) == (3 * _ALL + BINDING, 0, 0)
    assert planned(phases.result) == action_counts(phases.result)


@pytest.mark.parametrize(
    ("more", "ran"),
    [
        ('"8.0", "8.6", "9.0+PTX"', 5),
        ('"8.0", "9.0+PTX", "10.0"', 6),  # CUB has other launch bounds there, so the host's code is compiled too
    ],
    ids=["between", "last"],
)
def test_a_further_architecture_compiles_for_that_one_alone(phases: Built, base: Path, more: str, ran: int) -> None:
    project = copy_project(phases.project, base / "arch" / str(ran))
    phases.driver.build(project, CU130)
    _edit(project / "build.toml", '"8.0", "9.0+PTX"', more)
    # Preprocessing, cicc and ptxas for the new one; the fatbinary. The text of the binding is the same with the new id.
    result = phases.driver.build(project, CU130)
    assert action_counts(result) == (ran, 0, 3 * _ALL + BINDING + 3 - ran)
    assert planned(result) == action_counts(result)
    assert result["plan"]["measured"]


def test_a_comment_compiles_nothing(phases: Built, base: Path) -> None:
    project = copy_project(phases.project, base / "comment")
    phases.driver.build(project, CU130)
    _edit(project / "csrc" / "internal.cu", "__device__ int calls;", "__device__ int calls;  // how often")
    # The text of the binding gets the new id, which it does not use.
    result = phases.driver.build(project, CU130)
    assert action_counts(result) == (1, 0, 3 * _ALL + BINDING - 1)
    assert planned(result) == action_counts(result)


def test_a_further_torch_compiles_no_device_code(phases: Built, base: Path) -> None:
    project = copy_project(phases.project, base / "torch")
    phases.driver.build(project, CU130)
    result = phases.driver.build(project, CU130, CU130.replace("torch213", "torch214"))
    assert action_counts(result) == (BINDING, 3 * _ALL, 3 * _ALL + BINDING)
    assert planned(result) == action_counts(result)


@pytest.mark.slow
def test_equal_text_is_compiled_once_though_torch_was_in_sight(phases: Built, tmp_path: Path) -> None:
    root = phases.driver.root / "examples" / "sighted"
    copy_project(PROJECTS / "phases", root)
    _edit(root / "build.toml", "depends = []", 'depends = ["torch"]')
    phases.driver.run("gen", root)
    counts = []
    for torch in ("213", "214"):
        label = f"//examples/sighted:torch{torch}-cxx11-cu130-x86_64-linux"
        counts.append(phases.driver.runners(tmp_path / f"{torch}.json", f"--disk_cache={tmp_path}/disk", label))
    assert "disk cache hit" not in counts[0]
    # sum.cu is preprocessed and compared again; all between is found, and so are the id and the sources of both targets
    # without comments. The binding, link, check and variant run.
    assert counts[1]["disk cache hit"] == torch_actions(2) - 2 + 2
    assert counts[1]["linux-sandbox"] == 2 + BINDING + 3


def test_actions_that_run_at_once_fit_into_the_memory(lean: Built, tmp_path: Path) -> None:
    """1000 MB are enough for one cicc or cudafe++ at a time, each of which is taken for 800."""
    log = tmp_path / "spawns.json"
    options = ["--jobs=4", "--local_resources=memory=1000", "--platform_suffix=memory"]
    lean.driver.bazel("build", *options, f"--execution_log_json_file={log}", f"//examples/lean:{CU130}")
    text, decoder = log.read_text(), json.JSONDecoder()
    spans, at = [], 0
    while (at := text.find("{", at)) >= 0:
        spawn, at = decoder.raw_decode(text, at)
        if spawn["mnemonic"] in {"CudaDeviceCompile", "CudaFrontend"}:
            start = datetime.fromisoformat(spawn["metrics"]["startTime"]).timestamp()
            spans.append((start, start + float(spawn["metrics"]["executionWallTime"].removesuffix("s"))))
    assert len(spans) == 1 + 2
    spans.sort()
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


@pytest.mark.slow
def test_the_same_bytes_in_another_directory(phases: Built, tmp_path: Path, base: Path) -> None:
    here = base / "phases-output" / "a" / "deeper"
    links = {name: phases.driver.cache / name for name in ("bazel", "store", "venvs")}
    cache = make_cache(here / "cache", links)
    there = Driver(command=phases.driver.command, root=phases.driver.root, cache=cache, output=here / "output")
    project = copy_project(phases.project, base / "other" / "place" / tmp_path.name)
    assert action_counts(there.build(project, CU130)) == (3 * _ALL + BINDING, 0, 0)
    assert digests(project / "build") == digests(phases.build)
