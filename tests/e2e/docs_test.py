"""The blocks of C++ and CUDA of all pages, compiled and linked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from clone import CPU
from pages import Block, blocks
from tree import write_files

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e


class Kind(NamedTuple):
    """How the blocks of a kind are compiled.

    Attributes:
        mark: what a block of it has.
        table: the framework table of its project, with the lines that it needs.
        variant: that is built.
        given: a source with what the block takes for given.
        around: what the block stands in, at `BLOCK`.
    """

    mark: str
    table: str
    variant: str
    given: str
    around: str = "BLOCK"


_HEAD = """[general]
name = "{name}"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu"]

[{table}
src = ["ext/binding.cpp"]

[kernel.given]
backend = "cpu"
depends = ["torch"]
src = ["given.cpp"]
"""
_FRAGMENT = """
#include <torch/library.h>
#include "registration.h"

template <int, int, int> struct Config {};
template <typename T> int call(T) { return 1; }
inline int floor_mod(int a, int b) { return a % b; }
int choose(int capability, int columns) {
BLOCK
}
TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("choose() -> int", [] { return int64_t(choose(90, 2)); }); }
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
"""
KINDS = {
    "torch": Kind(
        mark="\nTORCH_LIBRARY_EXPAND",
        table="torch]",
        variant=CPU,
        given="#include <ATen/core/Tensor.h>\nat::Tensor relu(const at::Tensor& input) { return input; }\n"
        "at::Tensor scale(const at::Tensor& input, double) { return input; }\n",
    ),
    "stable": Kind(
        mark="\nSTABLE_TORCH_LIBRARY_EXPAND",
        table='torch]\nstable-abi = "2.9"',
        variant="torch-stable-abi29-cpu-x86_64-linux",
        given="#include <torch/csrc/stable/tensor.h>\n"
        "torch::stable::Tensor scale(const torch::stable::Tensor& input, double) { return input; }\n",
    ),
    "tvm": Kind(
        mark="\nTVM_FFI_DLL_EXPORT_TYPED_FUNC",
        table="tvm-ffi]",
        variant="tvm-ffi01-cpu-x86_64-linux",
        given="#include <tvm/ffi/tvm_ffi.h>\nvoid relu_cpu(tvm::ffi::TensorView, tvm::ffi::TensorView) {}\n",
    ),
    "pybind": Kind(
        mark="\nPYBIND11_MODULE",
        table="torch]",
        variant=CPU,
        given="#include <ATen/core/Tensor.h>\nat::Tensor relu(const at::Tensor& input) { return input; }\n",
    ),
    "fragment": Kind(mark="return call(Config<", table="torch]", variant=CPU, given="int nothing;\n", around=_FRAGMENT),
}
OF_PROJECTS = ("// scale/", "// square/")
"""So the files of the projects of two pages begin, which start_test.py and ops_test.py build."""
CODE = [block for block in blocks() if block.language in {"cpp", "cuda"} and not block.wrong]
COMPILED = [block for block in CODE if not block.text.startswith(OF_PROJECTS)]


def _kinds(block: Block) -> list[str]:
    return [name for name, kind in KINDS.items() if kind.mark in block.text]


def test_every_block_is_of_one_kind() -> None:
    assert [(block.page, block.line, _kinds(block)) for block in COMPILED if len(_kinds(block)) != 1] == []
    assert {block.page for block in CODE if block not in COMPILED} == {"docs/start.md", "docs/ops.md"}
    assert {name for block in COMPILED for name in _kinds(block)} == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
def test_the_blocks_compile(name: str, clone: Driver, base: Path) -> None:
    kind = KINDS[name]
    for block in (candidate for candidate in COMPILED if _kinds(candidate) == [name]):
        module = f"docs_{name}_{block.line}"
        files = {
            "build.toml": _HEAD.format(name=module.replace("_", "-"), table=kind.table).replace("ext/", "torch-ext/"),
            "torch-ext/binding.cpp": kind.around.replace("BLOCK", block.text),
            "given.cpp": kind.given,
            f"{'tvm-ffi' if name == 'tvm' else 'torch'}-ext/{module}/__init__.py": "",
        }
        project = write_files(base / module, files)
        if name == "pybind":
            options = ("--binding=pybind", "--python=3.11", f"--out={project / 'dist'}")
            clone.run("wheel", project, f"--variant={kind.variant}", *options)
            assert [path.name.split("-")[2] for path in (project / "dist").iterdir()] == ["cp311"], block
            continue
        result = clone.build(project, kind.variant)
        assert [variant["variant"] for variant in result["variants"]] == [kind.variant], block
