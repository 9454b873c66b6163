"""Compile commands for clang's own parser: flags of build.toml, headers, which file belongs to which variant."""

from __future__ import annotations

from pathlib import Path

import pytest

from py_driver.editor.compile_commands import Job, entries, of_nvcc
from py_driver.editor.database import shown_variants
from py_driver.editor.header_trees import UnpackedTree, header_trees
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.matrix.select import ANY
from py_driver.plan.plan import Plan, plan_directory
from py_driver.plan.section_search import OPENMP

RELEASES = Releases()
MANIFEST = """[general]
name = "demo"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda", "rocm"]

[torch]
src = ["torch-ext/torch_binding.cpp"]
cxx-flags = ["-DFROM_BINDING"]

[kernel.demo_cuda]
backend = "cuda"
depends = ["torch", "cutlass_3_6"]
src = ["csrc/demo.cu", "csrc/device.h", "csrc/shared.h", "csrc/both.cuh"]
include = ["csrc"]
cuda-flags = ["-DFROM_NVCC=1", "-use_fast_math", "-Xcompiler", "-Wall,-DFROM_HOST", "--threads", "4", "-std=c++20"]
cuda-capabilities = ["8.0", "9.0a"]

[kernel.demo_cpu]
backend = "cpu"
depends = ["torch"]
src = ["csrc/demo.cpp", "csrc/shared.h", "csrc/both.cuh"]

[kernel.demo_rocm]
backend = "rocm"
depends = ["torch"]
src = ["csrc/only_hip.hip"]
"""
FILES = {
    "build.toml": MANIFEST,
    "torch-ext/torch_binding.cpp": '#include "registration.h"\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n',
    "torch-ext/demo/__init__.py": "",
    "csrc/demo.cu": '#include "device.h"\n#include "shared.h"\n#include "both.cuh"\n',
    "csrc/device.h": "#pragma once\n",
    "csrc/shared.h": "#pragma once\n",
    "csrc/demo.cpp": '#include "shared.h"\n#include "both.cuh"\n',
    "csrc/both.cuh": "#pragma once\n",
    "csrc/only_hip.hip": "\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def included(project: Path, path: str) -> list[str]:
    text = (project / path).read_text(encoding="utf-8")
    return [line.split('"')[1] for line in text.splitlines() if line.startswith("#include")]


def jobs_of(plan: Plan, *patterns: str) -> list[Job]:
    """Jobs whose headers are where they would be unpacked, by what they are."""
    found = []
    for variant in shown_variants(plan, patterns, ANY, RELEASES.matrix):
        for group in plan.groups:
            if group.name in variant.groups:
                trees = {
                    name: UnpackedTree(
                        Path("/headers", name),
                        tuple(Path("/headers", name, names[0]) for names in tree.includes),
                        tuple(Path("/headers", name, names[0]) for names in tree.after),
                        tree.defines,
                    )
                    for name, tree in header_trees(RELEASES.lock, variant.needs, group.depends, "").items()
                }
                found.append(Job(group, variant, trees, Path("/rules"), "2.28"))
    return found


def commands_of(project: Path, *patterns: str) -> dict[str, list[str]]:
    plan = plan_directory(project, RELEASES)
    found = entries(jobs_of(plan, *patterns), project, RELEASES.matrix, lambda path: included(project, path))
    return {entry["file"]: entry["arguments"] for entry in found}


def test_each_source_has_the_flags_of_its_section(project: Path) -> None:
    commands = commands_of(project, "torch213-cxx11-cu130-*")
    kernel = commands["csrc/demo.cu"]
    assert kernel[kernel.index("-x") + 1] == "cuda"
    assert "--cuda-path=/headers/cuda" in kernel
    assert "--cuda-gpu-arch=sm_90a" in kernel
    assert kernel.index("-std=c++20", kernel.index("-DFROM_NVCC=1")) > 0
    assert not any(word.startswith("-std=gnu") for word in kernel)
    assert {"-DCUDA_KERNEL", "-DFROM_HOST", "-Wall"} <= {*kernel}
    assert not {"-use_fast_math", "--threads", "4", "-Xcompiler"} & {*kernel}
    assert "/headers/cutlass_3_6/0" in kernel
    binding = commands["torch-ext/torch_binding.cpp"]
    assert {"-DFROM_BINDING", "-DCUDA_KERNEL", "/rules/extension_name.h", "/headers/torch/include"} <= {*binding}
    assert "-std=gnu++20" in binding
    cpu = commands["csrc/demo.cpp"]
    assert "-std=gnu++20" in cpu
    assert "-DCPU_KERNEL" in cpu
    assert "-DCUDA_KERNEL" not in cpu
    assert not any("/headers/cuda" in word for word in cpu)


def test_a_header_is_parsed_as_its_readers_are(project: Path) -> None:
    commands = commands_of(project)
    device, shared, both = (commands[f"csrc/{name}"] for name in ("device.h", "shared.h", "both.cuh"))
    assert device[device.index("-x") + 1] == "cuda"
    assert shared[shared.index("-x") + 1] == "c++-header"
    assert both[both.index("-x") + 1] == "cuda"


def test_what_only_hip_compiles_has_no_entry(project: Path) -> None:
    assert "csrc/only_hip.hip" not in commands_of(project)


def test_only_headers_of_the_compiler_and_of_the_lock_are_searched(project: Path) -> None:
    for command in commands_of(project).values():
        assert "-nostdlibinc" in command
        assert "-nostdinc" not in command
        assert "-stdlib++-isystem" in command
        assert command.index("-stdlib++-isystem") < command.index("-idirafter")


def test_the_shown_variants_are_of_one_torch(project: Path) -> None:
    plan = plan_directory(project, RELEASES)
    for pattern, family in (("torch213-cxx11-cu130-*", "cuda"), ("torch213-cxx11-cpu-*", "cpu"), ("*", "cuda")):
        variants = shown_variants(plan, [pattern], ANY, RELEASES.matrix)
        assert variants[0].configuration.family == family
        assert len({variant.needs.torch for variant in variants}) == 1
        assert sorted({variant.configuration.family for variant in variants}) == ["cpu", "cuda", "rocm"]


def test_flags_for_nvcc() -> None:
    flags = [
        "-D",
        "A",
        "-DB=1",
        "-U",
        "C",
        "--std=c++17",
        "-std",
        "c++20",
        "-Xcompiler=-w",
        "-lineinfo",
        "-Xptxas",
        "-v",
    ]
    assert of_nvcc(flags) == ["-DA", "-DB=1", "-UC", "-std=c++17", "-std=c++20", "-w"]


def test_every_toolkit_and_torch_has_headers() -> None:
    wanted: set[tuple[str | None, str]] = {
        (torch.version, backend) for torch in RELEASES.matrix.torch for backend in torch.backends if backend != "cpu"
    }
    for configuration, _ in RELEASES.matrix.configurations():
        if configuration.family == "cuda":
            trees = header_trees(RELEASES.lock, configuration, ["torch"], "")
            assert list(trees) == ["torch", "cuda", "cc"]
            assert all(tree.parts for tree in trees.values())
            wanted.discard((configuration.torch, configuration.backend))
    assert not {need for need in wanted if need[1].startswith("cu")}


@pytest.mark.parametrize(("cpu", "directory"), [("x86_64", "gcc"), ("aarch64", "gcc-cross")])
def test_the_header_of_openmp_is_where_the_packages_for_a_cpu_have_it(cpu: str, directory: str) -> None:
    configuration = parse(f"torch213-cxx11-cpu-{cpu}-linux")
    [part] = header_trees(RELEASES.lock, configuration, [OPENMP], "")[OPENMP].parts
    assert part.include == (f"usr/lib/{directory}/{cpu}-linux-gnu/12/include/omp.h",)
