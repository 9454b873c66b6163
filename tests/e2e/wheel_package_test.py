"""A wheel's package is the package that the `kernels` client loads, module by module, and more: it has a name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU, PROJECTS, copy_project

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated
from py_driver.system.pip_config import pip_of

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

pytestmark = pytest.mark.e2e

_LOOK = PROJECTS / "layered" / "look.py"
_TORCH = '[torch]\nsrc = ["torch-ext/binding.cpp"]\ninclude = ["."]\n'
_PYTHON_OP = """
import torch

from ._ops import add_op_namespace_prefix


@torch.library.custom_op(add_op_namespace_prefix("twice"), mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x
"""


def _python(*args: str, site: Path | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a Python with torch and the client, away from any project; `site` is where a wheel was installed."""
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(site or "")})
    command = [python_for([parse(CPU)], Releases(), Output()), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd="/")
    assert done.returncode == code, done.stdout + done.stderr
    return done


def _install(driver: Driver, project: Path, place: Path, *options: str) -> Path:
    """Make a wheel and install it; where."""
    made = driver.run("wheel", project, f"--out={place / 'dist'}", *options).stdout.strip()
    site = place / "site"
    python = python_for([parse(CPU)], Releases(), Output())
    command = [
        *pip_of(sys.executable, python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        f"--target={site}",
        made,
    ]
    subprocess.run(command, check=True)
    return site


@pytest.fixture(scope="module")
def compiled(clone: Driver, base: Path) -> Path:
    """The project, built for two releases of torch."""
    project = copy_project(PROJECTS / "layered", base / "layered")
    clone.build(project, "torch213-cxx11-cpu-*", "torch215-cxx11-cpu-*")
    assert len(list((project / "build").iterdir())) == 2
    return project


@pytest.fixture(scope="module")
def noarch(clone: Driver, base: Path) -> Path:
    """The project with a Python op and no docstring, for two backends."""
    project = copy_project(PROJECTS / "layered", base / "noarch")
    manifest = project / "build.toml"
    text = manifest.read_text().replace('["cpu"]', '["cpu", "cuda"]').replace(_TORCH, "[torch-noarch]\n")
    manifest.write_text(text.partition("\n[kernel.")[0])
    package = project / "torch-ext" / "layered"
    (package / "_op.py").write_text(_PYTHON_OP)
    init = (package / "__init__.py").read_text()
    (package / "__init__.py").write_text(init.removeprefix('"""A package with all that packages may have."""\n'))
    clone.build(project)
    assert {path.name for path in (project / "build").iterdir()} == {"torch-cpu", "torch-cuda"}
    return project


@pytest.fixture(scope="module")
def site(clone: Driver, compiled: Path, base: Path) -> Path:
    """Where the wheel of the compiled project is installed."""
    return _install(clone, compiled, base / "compiled-wheel")


def _seen(*args: str, site: Path | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_python(str(_LOOK), *args, site=site).stdout.splitlines()[-1])
    return found


def test_compiled_package_is_that_of_the_client(compiled: Path, site: Path) -> None:
    expected = _seen("kernels", str(compiled))
    assert {"PACKAGE", "PACKAGE.layers", "PACKAGE.lazy", "PACKAGE.sub.deep", "PACKAGE._ops"} < set(expected["modules"])
    assert expected["pickled"] == [True, 2, [4.0, 4.0]]
    assert _seen("wheel", site=site) == expected


def test_package_of_python_files_is_that_of_the_client(clone: Driver, noarch: Path, tmp_path: Path) -> None:
    expected = _seen("kernels", str(noarch))
    assert expected["PACKAGE"]["__doc__"] == "None"
    assert _seen("wheel", site=_install(clone, noarch, tmp_path)) == expected


def test_wheel_of_one_variant(clone: Driver, compiled: Path, tmp_path: Path) -> None:
    site = _install(clone, compiled, tmp_path, f"--variant={CPU}")
    assert _seen("wheel", site=site) == _seen("kernels", str(compiled))


_NAMES = """
import importlib, inspect, json, pickle, sys
import layered.sub.deep as deep
from layered import layers, Twice
from layered.layers import Twice as same
import layered.layers
import layered
assert same is Twice is layered.Twice is layered.layers.Twice
assert layered.__version__ == "1.2.3" and layered.lazy.GREETING == "late" and layers is layered.layers
assert "_rules_torch_kernels" not in dir(layered) and "layered._rules_torch_kernels" not in sys.modules
print(pickle.dumps([Twice(2), layered.Layered]).hex())
before = layered.Layered
assert importlib.reload(layered) is layered is sys.modules["layered"]
assert layered.Layered is not before and layered.Layered.__doc__ == before.__doc__
assert inspect.getsource(layered).startswith('\"\"\"A package with all')
assert importlib.util.find_spec("layered.layers").origin == layered.layers.__file__
layered.twice(__import__("torch").ones(2))
finders = list(sys.meta_path)
importlib.reload(layered)
assert sys.meta_path == finders
"""
_UNPICKLE = """
import pickle, sys, torch
layer, kind = pickle.loads(bytes.fromhex(sys.argv[1]))
print(layer(torch.ones(2)).tolist(), type(layer), kind)
"""


def test_names_that_only_an_installed_package_has(site: Path) -> None:
    pickled = _python("-c", _NAMES, site=site).stdout.strip()
    unpickled = _python("-c", _UNPICKLE, pickled, site=site).stdout.strip()
    assert unpickled == "[4.0, 4.0] <class 'layered.layers.Twice'> <class 'layered.Layered'>"
    assert _python("-m", "layered", "x", site=site).stdout.strip() == "main 1.2.3 layered {\"dimensions\": 2} ['x']"
    assert _python("-m", "layered.report", site=site).stdout.strip() == 'report layered {"dimensions": 2} []'


_BOTH = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
how = {"kernels": lambda: get_local_kernel(Path(sys.argv[1])), "wheel": lambda: __import__("layered")}
order, early = sys.argv[2].split(","), sys.argv[3] == "early"
loaded = []
for one in order:
    loaded.append(how[one]())
    if early:
        loaded[-1].twice(torch.ones(1))
for one in loaded:
    assert one.twice(torch.ones(2)).tolist() == [2.0, 2.0]
    assert one.Twice(2)(torch.ones(2)).tolist() == [4.0, 4.0]
assert loaded[0].Twice is not loaded[1].Twice
print(*sorted(one.__name__ for one in loaded))
"""


@pytest.mark.parametrize("when", ["early", pytest.param("late", marks=pytest.mark.slow)])
@pytest.mark.parametrize("order", ["kernels,wheel", pytest.param("wheel,kernels", marks=pytest.mark.slow)])
def test_both_live_in_one_process(compiled: Path, site: Path, order: str, when: str) -> None:
    assert _python("-c", _BOTH, str(compiled), order, when, site=site).stdout.split()[1] == "layered"


@pytest.mark.parametrize("order", ["wheel,kernels", pytest.param("kernels,wheel", marks=pytest.mark.slow)])
def test_both_of_python_files_live_in_one_process(clone: Driver, noarch: Path, tmp_path: Path, order: str) -> None:
    site = _install(clone, noarch, tmp_path)
    assert _python("-c", _BOTH, str(noarch), order, "late", site=site).stdout.split()[1] == "layered"


def test_no_variant_fits(clone: Driver, compiled: Path, tmp_path: Path) -> None:
    other = CPU.replace("213", "215")
    site = _install(clone, compiled, tmp_path, f"--variant={other}")
    said = _python("-c", "import layered", site=site, code=1).stderr
    assert re.search(
        r"^ImportError: this wheel of layered has no variant for torch 2\.13\.\S+ \(CPU only, C\+\+ ABI cxx11, "
        rf"x86_64-linux\):\n  {other} is for torch 2\.15\nInstall a torch ",
        said,
        re.MULTILINE,
    )
