"""`rules_torch_kernels.cpp_extension` in the place of torch's: calls, processes beside each other, a setup.py."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clone import CPU, PROJECTS, Driver

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.pip_config import pip_of

pytestmark = pytest.mark.e2e

OURS, TORCHS = "rules_torch_kernels.cpp_extension", "torch.utils.cpp_extension"
CASES = PROJECTS / "jit_cases.py"
SIGNATURES = """
import inspect
import torch.utils.cpp_extension as torchs
from rules_torch_kernels import cpp_extension as ours
for name in ("load", "load_inline", "include_paths"):
    wanted, found = (inspect.signature(getattr(module, name)).parameters for module in (torchs, ours))
    assert list(found) == list(wanted), (name, set(found) ^ set(wanted))
    defaults = [(key, found[key].default) for key in found if found[key].default != wanted[key].default]
    assert not defaults, (name, defaults)
"""
ONE = """
import sys, time
import torch
from rules_torch_kernels import cpp_extension
start = time.monotonic()
text = "torch::Tensor f(torch::Tensor x) { return x + %s; }" % sys.argv[1]
module = cpp_extension.load_inline("beside", text, functions="f")
print(int(module.f(torch.zeros(1))), time.monotonic() - start, module.__file__)
"""
SETUP = """
from setuptools import setup
from rules_torch_kernels.cpp_extension import BuildExtension, CppExtension

setup(
    name="installed",
    version="1.0",
    packages=["installed"],
    ext_modules=[CppExtension("installed._C", ["main.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
"""
SOURCE = """#include <torch/extension.h>
torch::Tensor twice(torch::Tensor x) { return 2 * x; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }
"""
CUDA = """
from pathlib import Path
from rules_torch_kernels.cpp_extension import load_inline
from rules_torch_kernels import inline_project

inline_project.Inline.build = lambda inline, parent, verbose: inline._write(parent) or parent
try:
    load_inline(
        "scaled", "torch::Tensor scaled(torch::Tensor x);", __KERNELS__, functions="scaled", build_directory=__PLACE__
    )
except RuntimeError:
    pass
"""


@dataclass(frozen=True)
class Environment:
    """A Python with torch, which finds the client and the driver."""

    driver: Driver
    python: str

    def variables(self) -> dict[str, str]:
        return self.driver.environment(
            {
                "PYTHONPATH": str(self.driver.root / "py_driver" / "client"),
                "RULES_TORCH_KERNELS_DRIVER": shlex.join(self.driver.command),
                "PYTHONDONTWRITEBYTECODE": "1",
            }
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._run([self.python, *words], Path("/"))

    def install(self, project: Path, site: Path) -> subprocess.CompletedProcess[str]:
        options = ["--no-index", "--no-build-isolation", "--no-deps", f"--target={site}"]
        return self._run([*pip_of(sys.executable, self.python), "install", *options, str(project)], project)

    def _run(self, command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
        env = self.variables()
        return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False)

    def cases(self, module: str, place: Path, *names: str) -> dict[str, Any]:
        place.mkdir(parents=True)
        done = self.run(str(CASES), module, str(place), *names)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def environment(clone: Driver) -> Environment:
    return Environment(clone, python_for([parse(CPU)], Releases(), Output()))


def test_signatures_are_those_of_torch(environment: Environment) -> None:
    done = environment.run("-c", SIGNATURES)
    assert done.returncode == 0, done.stderr


def test_calls(environment: Environment, base: Path) -> None:
    found = environment.cases(OURS, base / "jit" / "calls", "functions_with_docs", "a_mistake", "files")
    assert found == {"functions_with_docs": [[2, 2], [2, 2], True, True], "a_mistake": [2, 2], "files": [7, 8]}


@pytest.mark.slow
def test_every_call_has_the_answer_of_torch(environment: Environment, base: Path) -> None:
    if not shutil.which("g++") or not shutil.which("ninja"):
        pytest.skip("torch's own needs g++ and ninja")
    ours, torchs = (environment.cases(module, base / "jit" / module) for module in (OURS, TORCHS))
    # torch does not look at what sources include.
    assert (ours.pop("files"), torchs.pop("files")) == ([7, 8], [7, 7])
    assert ours == torchs
    assert len(ours) == 12


def test_processes_beside_each_other_and_a_later_one(environment: Environment) -> None:
    with ThreadPoolExecutor() as pool:
        runs = list(pool.map(lambda _: environment.run("-c", ONE, "5"), range(2)))
    later = environment.run("-c", ONE, "5")
    answers = []
    for done in (*runs, later):
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout.split())
    assert {answer[0] for answer in answers} == {"5"}
    assert len({answer[2] for answer in answers}) == 1
    assert float(answers[2][1]) < 0.3  # the bar for a second process
    assert later.stderr == ""


@pytest.mark.slow
def test_torch_need_not_be_imported_first(environment: Environment) -> None:
    text = 'py::dict told() { py::dict found; found[py::str("a")] = 1; return found; }'
    call = f"import {OURS} as e; print(e.load_inline('told', {text!r}, functions='told').told())"
    done = environment.run("-c", call)
    assert (done.returncode, done.stdout) == (0, "{'a': 1}\n"), done.stderr


@pytest.mark.slow
def test_an_error_names_the_place_in_the_file_of_the_user(environment: Environment, base: Path) -> None:
    place = base / "jit" / "My Drive" / "é (1)"
    place.mkdir(parents=True)
    (place / "main.cpp").write_text(SOURCE.replace("2 * x", "unheard"))
    call = f"import {OURS} as e; e.load('wrong', [{str(place / 'main.cpp')!r}])"
    done = environment.run("-c", call)
    assert f"{place}/main.cpp:2:" in done.stderr
    assert "use of undeclared identifier 'unheard'" in done.stderr
    assert "BuildError" in done.stderr


def test_a_setup_py(environment: Environment, base: Path) -> None:
    project, site = base / "jit" / "setup", base / "jit" / "site"
    (project / "installed").mkdir(parents=True)
    (project / "setup.py").write_text(SETUP)
    (project / "main.cpp").write_text(SOURCE)
    (project / "installed" / "__init__.py").write_text("import torch\nfrom installed._C import twice\n")
    done = environment.install(project, site)
    assert done.returncode == 0, done.stdout + done.stderr
    used = environment.run(
        "-c",
        f"import sys; sys.path.insert(0, {str(site)!r}); import installed, torch; "
        "print(installed.twice(torch.ones(2)).tolist(), installed.__file__)",
    )
    assert used.stdout.split(" /")[0] == "[2.0, 2.0]", used.stderr
    assert str(site) in used.stdout


@pytest.mark.slow
def test_a_setup_py_that_cannot_be_built(environment: Environment, base: Path) -> None:
    project = base / "jit" / "unheard"
    project.mkdir(parents=True)
    (project / "setup.py").write_text(SETUP.replace('packages=["installed"]', "packages=[]"))
    (project / "main.cpp").write_text(SOURCE.replace("2 * x", "unheard"))
    done = environment.install(project, base / "none")
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert "main.cpp:2:" in said
    assert "use of undeclared identifier 'unheard'" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_cuda_sources_compile(environment: Environment, base: Path) -> None:
    """No GPU is needed to compile what the call writes; see that a device function is in what was built."""
    place = base / "jit" / "cuda"
    kernels = """
        __global__ void scale(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 3; }
        torch::Tensor scaled(torch::Tensor x) { scale<<<1, 256>>>(x.data_ptr<float>(), x.numel()); return x; }
    """
    place.mkdir(parents=True)
    script = CUDA.replace("__KERNELS__", repr(kernels)).replace("__PLACE__", repr(str(place)))
    done = environment.run("-c", script)
    assert done.returncode == 0, done.stderr
    assert sorted(file.name for file in place.iterdir()) == ["cuda.cu", "main.cpp", "setup.py"]
    variant = CPU.replace("-cpu-", "-cu130-")
    environment.driver.run("build", place, "--variant", variant, "--archs", "9.0")
    [library] = (place / "build" / variant).rglob("*.so")
    assert b"scale" in library.read_bytes()
