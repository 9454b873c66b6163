"""Versions of one kernel, and kernels with equal C++ symbols and equal op names, live in one process.

Every library is loaded with RTLD_GLOBAL, so that all it exports is there for the others to find.
"""

from __future__ import annotations

import ast
import re
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from amd import code_objects
from clone import CPU, CU130, PROJECTS, ROCM, ROOT, copy_project

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Built, Driver

pytestmark = pytest.mark.e2e

_OURS = """
import os, pathlib, sys, torch
from kernels import get_local_kernel
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
kernels = [get_local_kernel(pathlib.Path(path)) for path in sys.argv[1:]]
print([(kernel.answer(), kernel.count(), kernel.count()) for kernel in kernels])
"""
_PLAIN = """
import importlib.util, os, sys, torch
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
said = []
for path in sys.argv[1:]:
    name = os.path.basename(path).partition(".")[0]
    spec = importlib.util.spec_from_file_location(name, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    ops = getattr(torch.ops, name)
    said.append((ops.answer(), ops.count(), ops.count()))
print(said)
"""


@pytest.fixture(scope="module")
def python() -> str:
    return python_for([parse(CPU)], Releases(), Output())


def _project(base: Path, folder: str, name: str, answer: int) -> Path:
    """A copy of the project with a name and an answer of its own."""
    project = copy_project(PROJECTS / "twin", base / folder)
    header = project / "csrc" / "answer.h"
    header.write_text(header.read_text().replace("ANSWER 1", f"ANSWER {answer}"))
    if name != "twin":
        manifest = project / "build.toml"
        manifest.write_text(manifest.read_text().replace('"twin"', f'"{name}"'))
        (project / "torch-ext" / "twin").rename(project / "torch-ext" / name)
    return project


def _run(python: str, program: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    command = [python, "-c", program, *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd="/")


def _say(python: str, program: str, *paths: Path) -> object:
    done = _run(python, program, *paths)
    assert done.returncode == 0, done.stdout + done.stderr
    return ast.literal_eval(done.stdout)


@pytest.fixture(scope="module")
def twins(installed: Driver, alone: Built, base: Path) -> list[Path]:
    """Two versions of one kernel, and another kernel with the same symbols and ops; each with its own answer."""
    assert alone.build.is_dir()
    projects = [_project(base, "one", "twin", 1), _project(base, "two", "twin", 2), _project(base, "three", "other", 3)]
    for project in projects:
        installed.build(project, CPU)
    return projects


@pytest.mark.slow
def test_kernels_with_equal_names_do_not_meet(twins: list[Path], python: str) -> None:
    builds = [project / "build" for project in twins]
    assert _say(python, _OURS, *builds) == [(1, 101, 102), (2, 201, 202), (3, 301, 302)]
    assert _say(python, _OURS, *reversed(builds)) == [(3, 301, 302), (2, 201, 202), (1, 101, 102)]


def _compile(project: Path, name: str, out: Path, python: str) -> Path:
    """The same sources as a plain `g++ -shared` makes them, as setup.py does."""
    torch = subprocess.run(
        [python, "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True, check=True, cwd="/"
    ).stdout.strip()
    library = out / f"{name}.so"
    headers = [f"-I{torch}/include", f"-I{ROOT}/rules/private/include", f"-I{project}/csrc"]
    sources = [str(project / "csrc/answer.cpp"), str(project / "torch-ext/binding.cpp")]
    flags = ["-shared", "-fPIC", "-std=c++20", f"-DTORCH_EXTENSION_NAME={name}"]
    libraries = [f"-L{torch}/lib", "-ltorch_cpu", "-lc10"]
    subprocess.run(["g++", *flags, *headers, *sources, *libraries, "-o", library], check=True)
    return library


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="shows what another compiler does: there is no g++")
def test_plain_libraries_do_meet(twins: list[Path], python: str, tmp_path: Path) -> None:
    first = _compile(twins[0], "plain_one", tmp_path, python)
    second = _compile(twins[1], "plain_two", tmp_path, python)
    assert _say(python, _PLAIN, first, second) == [(1, 101, 102), (1, 103, 104)]
    again = tmp_path / "again" / second.name
    again.parent.mkdir()
    shutil.copy(second, again)
    done = _run(python, _PLAIN, second, again)
    assert done.returncode == -signal.SIGABRT
    assert "Only a single TORCH_LIBRARY can be used to register the namespace plain_two" in done.stderr


def test_one_text_is_compiled_in_two_groups(relu: Built, base: Path) -> None:
    """No symbol of one is in the way of the other's, and the library has the GPU's code of both."""
    project = copy_project(PROJECTS / "tiny", base / "groups")
    manifest = project / "build.toml"
    text = manifest.read_text().replace('backends = ["cpu", "cuda"]', 'backends = ["cuda", "rocm"]')
    text = text[: text.index("[kernel.one]")]
    for backend, archs in (("cuda", 'cuda-capabilities = ["9.0"]'), ("rocm", 'rocm-archs = ["gfx942"]')):
        for group in ("once", "twice"):
            head = f'[kernel.{group}-{backend}]\nbackend = "{backend}"\ndepends = []\nsrc = ["csrc/{group}.cu"]\n'
            flags = f'{"cuda" if backend == "cuda" else "hip"}-flags = ["-D{group.upper()}"]\n'
            text += f"{head}{archs}\n{flags}"
    manifest.write_text(text)
    source = "namespace {\n__global__ void kernel(int* out) { *out = KIND; }\n}\n"
    chosen = "#ifdef ONCE\n#define KIND 1\n#define launch once\n#else\n#define KIND 2\n#define launch twice\n#endif\n"
    launched = "void launch(int* out) { kernel<<<1, 1>>>(out); }\n"
    for group in ("once", "twice"):
        (project / "csrc" / f"{group}.cu").write_text(f"#include <cuda_runtime.h>\n{chosen}{source}{launched}")
    relu.driver.build(project, CU130, ROCM)
    [cuda] = (project / "build" / CU130).glob("*.so")
    [rocm] = (project / "build" / ROCM).glob("*.so")
    assert len(re.findall(rb"\x50\xed\x55\xba\x01\x00", cuda.read_bytes())) == 2
    assert [code_object.named for code_object in code_objects(rocm.read_bytes())] == ["gfx942", "gfx942"]
