"""Plain pytest in an environment with torch and rules-torch-kernels: kernel projects are built for it."""

from __future__ import annotations

import os
import shlex
import subprocess
import textwrap
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from clone import CPU, Driver

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

SETUP = """
    from setuptools import setup
    from torch.utils.cpp_extension import BuildExtension, CppExtension

    modules = [CppExtension("twice._C", ["twice.cpp"])]
    setup(name="twice", packages=["twice"], ext_modules=modules, cmdclass={"build_ext": BuildExtension})
"""
SOURCE = """
    #include <torch/extension.h>
    torch::Tensor twice(torch::Tensor x) { return 2 * x; }
    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }
"""
TEST = """
    import torch
    import twice

    def test_twice():
        assert twice.twice(torch.ones(3)).tolist() == [2, 2, 2]
"""


@dataclass(frozen=True)
class Environment:
    """A Python with torch, in which rules-torch-kernels is installed."""

    driver: Driver
    python: str
    site: Path

    def variables(self) -> dict[str, str]:
        paths = [str(self.site), str(self.driver.root / "py_driver" / "client")]
        own = {
            "PYTHONPATH": os.pathsep.join(paths),
            "RULES_TORCH_KERNELS_DRIVER": shlex.join(self.driver.command),
            "HF_HUB_OFFLINE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return self.driver.environment(own)

    def pytest(self, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
        command = [self.python, "-m", "pytest", "-q", *words]
        return subprocess.run(command, cwd=directory, env=self.variables(), capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def environment(clone: Driver, base: Path) -> Environment:
    """The entry point of the checkout's pyproject.toml, as a wheel of it has it."""
    entry_points = tomllib.loads((clone.root / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = base / "site" / "rules_torch_kernels-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: rules-torch-kernels\nVersion: 1.0\n")
    lines = ["[pytest11]", *(f"{name} = {module}" for name, module in entry_points.items())]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    return Environment(clone, python_for([parse(CPU)], Releases(), Output()), installed.parent)


def test_a_template(environment: Environment, base: Path) -> None:
    project = base / "pytest" / "plain-silu"
    environment.driver.run("init", project, "--name=me/plain-silu")
    collected = environment.pytest(project, "--collect-only")
    assert "99 tests collected" in collected.stdout
    assert not (project / ".dev").exists()
    done = environment.pytest(project)
    assert "98 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert f"for {CPU}: " in done.stderr
    again = environment.pytest(project / "tests", "-k", "special")
    assert "1 passed, 98 deselected" in again.stdout
    assert again.stderr == ""
    # An installed version and a source tree have the same name.
    for directory in (environment.site, project):
        (directory / "plain_silu").mkdir()
        (directory / "plain_silu" / "__init__.py").write_text("raise ImportError('not the build')\n")
    (project / "conftest.py").touch()
    found = project / "tests" / "test_import.py"
    found.write_text(f"import plain_silu\ndef test_import():\n    assert '{project}/.dev/' in plain_silu.__file__\n")
    imported = environment.pytest(project, "tests/test_import.py")
    assert "1 passed" in imported.stdout, imported.stdout
    found.unlink()
    variables = {**environment.variables(), "RULES_TORCH_KERNELS_TORCH_PYTHON": environment.python}
    tested = environment.driver.run("test", project, "--", "-q", "-k", "special", env=variables)
    assert tested.stderr.count(f"for {CPU}: 0 actions ran") == 1
    source = project / "csrc" / "plain_silu.cpp"
    source.write_text(source.read_text().replace("from[i] * vec", "unheard * vec"))
    failed = environment.pytest(project)
    assert failed.returncode == pytest.ExitCode.USAGE_ERROR
    assert "csrc/plain_silu.cpp:" in failed.stderr
    assert "'unheard' was not declared in this scope" in failed.stderr
    assert failed.stderr.rstrip().endswith(f"ERROR: the build of {project} failed with exit code 5")
    assert "Traceback" not in failed.stdout + failed.stderr


@pytest.mark.slow
def test_a_setup_py(environment: Environment, base: Path) -> None:
    project = base / "pytest" / "twice"
    files = {"setup.py": SETUP, "twice.cpp": SOURCE, "tests/test_twice.py": TEST}
    files["twice/__init__.py"] = "import torch\nfrom twice._C import twice\n"
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(textwrap.dedent(text))
    collected = environment.pytest(project, "--collect-only")
    assert "1 test collected" in collected.stdout
    assert not (project / ".dev").exists()
    done = environment.pytest(project)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "1 passed" in environment.pytest(project).stdout
