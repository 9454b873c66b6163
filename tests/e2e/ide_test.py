"""`driver ide`, proved by clangd: nothing is wrong in the templates and examples, and torch's headers are there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import PROJECTS, ROOT
from language_server import editing

from py_driver import __main__
from py_driver.authoring.new_project import templates
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

_USUAL = ("elementwise", "gemm-hopper", "stable-abi")
"""Of the templates: the one for all backends, the one with the most headers, and one without torch's C++ API."""

SETUP = """import os
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

here = os.path.dirname(os.path.abspath(__file__))
setup(
    name="scaled-ops",
    version="1.2",
    ext_modules=[
        CUDAExtension(
            "scaled._C",
            ["csrc/ops.cpp", "csrc/scale.cu"],
            include_dirs=[os.path.join(here, "csrc")],
            define_macros=[("WITH_SCALE", None)],
            extra_compile_args={"cxx": ["-O2"], "nvcc": ["--use_fast_math", "-Xcompiler", "-Wall", "--threads", "4"]},
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
"""
SOURCES = {
    "setup.py": SETUP,
    "csrc/scale.h": "#pragma once\nvoid scale_cuda(const float* x, float* y, long n, float factor);\n",
    "csrc/scale.cu": """#include "scale.h"
#ifndef WITH_SCALE
#error the macro of setup.py is missing
#endif
__global__ void scale_kernel(const float* x, float* y, long n, float factor) {
  long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = __expf(x[i]) * factor;
}
void scale_cuda(const float* x, float* y, long n, float factor) {
  scale_kernel<<<static_cast<unsigned>((n + 255) / 256), 256>>>(x, y, n, factor);
}
""",
    "csrc/ops.cpp": """#include <torch/extension.h>
#include "scale.h"

at::Tensor scale(const at::Tensor& input, double factor) {
  auto output = at::empty_like(input);
  scale_cuda(input.data_ptr<float>(), output.data_ptr<float>(), input.numel(), static_cast<float>(factor));
  return output;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scale", &scale, "scales", py::arg("input"), py::arg("factor") = 2.0);
}
""",
}


@pytest.fixture
def here(base: Path) -> Iterator[Path]:
    """A directory for projects."""
    place = base / "ide"
    place.mkdir()
    yield place
    shutil.rmtree(place)


def database(project: Path) -> dict[str, list[str]]:
    """The command of each file of a compilation database."""
    entries = json.loads((project / "compile_commands.json").read_text())
    return {entry["file"]: entry["arguments"] for entry in entries}


def check_directories(commands: dict[str, list[str]]) -> None:
    """The headers are files that no `bazel clean` removes."""
    words = [word.removeprefix("--cuda-path=") for words in commands.values() for word in words]
    named = {Path(word) for word in words if word.startswith("/")}
    assert named
    assert all(path.exists() for path in named)
    assert all(path.is_relative_to(cache_root() / "headers") or path.is_relative_to(ROOT) for path in named)


def check_clean(project: Path) -> None:
    """clangd has nothing to say of any file of a database."""
    commands = database(project)
    check_directories(commands)
    with editing(project) as editor:
        said = {path: editor.diagnostics(path) for path in commands}
    assert said == {path: [] for path in commands}


@pytest.mark.parametrize(
    "template",
    [
        name if name in _USUAL else pytest.param(name, marks=pytest.mark.slow)
        for name in templates()
        if not name.startswith("triton")
    ],
)
def test_clangd_has_nothing_to_say_of_a_template(template: str, here: Path) -> None:
    project = here / "silu-like"
    assert __main__.main(["init", str(project), "--template", template]) == 0
    assert __main__.main(["ide", str(project)]) == 0
    commands = database(project)
    sources = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.suffix in {".cpp", ".cu"}}
    assert sources <= commands.keys()
    check_clean(project)


@pytest.mark.parametrize("example", ["relu", "row_sum"])
def test_clangd_has_nothing_to_say_of_an_example(example: str, here: Path) -> None:
    project = shutil.copytree(ROOT / "examples" / example, here / example, ignore=shutil.ignore_patterns("build", ".*"))
    assert __main__.main(["ide", str(project)]) == 0
    check_clean(project)


@pytest.mark.parametrize("name", ["openmp", "tvm_ffi"])
def test_clangd_has_nothing_to_say_of_other_headers(name: str, here: Path) -> None:
    project = shutil.copytree(PROJECTS / name, here / name)
    assert __main__.main(["ide", str(project)]) == 0
    check_clean(project)


def test_clangd_completes_follows_and_finds_an_error(here: Path) -> None:
    project = here / "silu"
    assert __main__.main(["init", str(project), "--template", "elementwise"]) == 0
    assert __main__.main(["ide", str(project)]) == 0
    binding = "torch-ext/torch_binding.cpp"
    text = "#include <torch/all.h>\n" + (project / binding).read_text()
    function = "void planted(torch::Tensor& a) {\n  a.no_such_member();\n}\n"
    first = len(text.splitlines())
    with editing(project) as editor:
        assert editor.diagnostics(binding, text + function) == [
            f"{first + 2}: No member named 'no_such_member' in 'at::Tensor' [no_member]"
        ]
        answer = editor.ask("completion", binding, first + 1, len("  a."))
        names = {found["filterText"] for found in answer["items"]}
        assert {"data_ptr", "sizes", "is_contiguous", "requires_grad"} <= names
        declared = editor.ask("definition", binding, first, function.index("Tensor") + 1)
        assert any("/headers/" in found["uri"] and found["uri"].endswith("/TensorBody.h") for found in declared)
        [argument] = editor.ask("definition", binding, first + 1, len("  a"))
        assert argument["uri"].endswith(binding)
        kernel = (project / "csrc" / "silu.cu").read_text() + "\n__global__ void planted() { no_such_function(1); }\n"
        [error] = editor.diagnostics("csrc/silu.cu", kernel)
    assert "Use of undeclared identifier 'no_such_function'" in error


def test_a_project_with_a_setup_py(here: Path) -> None:
    project = here / "scaled"
    for path, text in SOURCES.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    assert __main__.main(["ide", str(project)]) == 0
    assert {"csrc/ops.cpp", "csrc/scale.cu", "csrc/scale.h"} == database(project).keys()
    check_clean(project)


def test_what_is_not_the_drivers_stays(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = here / "silu"
    assert __main__.main(["init", str(project), "--template", "elementwise"]) == 0
    (project / ".clangd").write_text("# mine\n")
    (project / ".vscode" / "tasks.json").unlink()
    assert __main__.main(["ide", str(project)]) == 0
    assert "not overwritten: .clangd" in capsys.readouterr().err
    assert (project / ".clangd").read_text() == "# mine\n"
    assert (project / ".vscode" / "tasks.json").is_file()
    (project / "compile_commands.json").write_text("[]")
    assert __main__.main(["ide", str(project)]) == 2
    assert (project / "compile_commands.json").read_text() == "[]"


def test_a_build_refreshes_a_database(here: Path) -> None:
    project = here / "silu"
    cpu = "torch213-cxx11-cpu-x86_64-linux"
    assert __main__.main(["init", str(project), "--template", "elementwise"]) == 0
    assert __main__.main(["ide", str(project), "--variant", cpu]) == 0
    manifest = (project / "build.toml").read_text()
    (project / "csrc" / "more.cpp").write_text("int more() { return 1; }\n")
    (project / "build.toml").write_text(manifest.replace('"csrc/silu.cpp"', '"csrc/silu.cpp", "csrc/more.cpp"'))
    assert __main__.main(["build", str(project), "--variant", cpu, "--jobs", "1"]) == 0
    commands = database(project)
    assert "csrc/more.cpp" in commands
    outputs = {entry["output"] for entry in json.loads((project / "compile_commands.json").read_text())}
    assert f"torch-kernels/{cpu}/csrc/more.cpp.o" in outputs
