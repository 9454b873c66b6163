"""Built variants in the hands of the real `kernels` client and a real torch."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import BINDING, CPU, CU130, RELU, action_counts, copy_project
from kernels._rust import Digest, DigestValidationError, Metadata  # type: ignore[import-untyped]

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Callable

    from clone import Built

pytestmark = [pytest.mark.e2e, pytest.mark.core]

_LOAD = """
import sys, torch
from kernels import get_local_kernel
x = torch.tensor([-1.0, 0.0, 2.0, float("nan")])
loaded = [get_local_kernel(path) for path in map(__import__("pathlib").Path, sys.argv[1:])]
for relu in loaded:
    torch.testing.assert_close(relu.relu(x), torch.relu(x), equal_nan=True)
print(*(relu.__name__ for relu in loaded))
"""
_FREE_THREADED = """
import importlib.util, pathlib, sys, sysconfig, torch
sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
place, name = pathlib.Path(sys.argv[1]), sys.argv[2]
spec = importlib.util.spec_from_file_location(name, place / "__init__.py", submodule_search_locations=[str(place)])
sys.modules[name] = relu = importlib.util.module_from_spec(spec)
spec.loader.exec_module(relu)
x = torch.tensor([-1.0, 0.0, 2.0, float("nan")])
torch.testing.assert_close(relu.relu(x), torch.relu(x), equal_nan=True)
"""
"""A variant in what says that it is a free-threaded Python, which the client refuses before 3.15;
tests/e2e/pythons_test.py has a real one."""

_NOT_IMPORTED = """
assert not any(module.endswith("." + name) or module == name + "." + name for module in sys.modules), name
import pathlib
assert any(name + ".abi3.so" in line for line in pathlib.Path("/proc/self/maps").read_text().splitlines())
"""

_DIGEST = """
import json, pathlib, sys
from kernels._rust import Digest, DigestAlgorithm
path = pathlib.Path(sys.argv[1])
stated = json.loads((path / "metadata.json").read_text())["digest"]
computed = Digest.hash_variant(DigestAlgorithm.SHA256, path)
print(json.dumps([stated, {"algorithm": "sha256", "files": dict(computed.files)}]))
"""
_PARSE = """
import sys
from kernels.variants import parse_variant
for name in sys.argv[1:]:
    print(type(parse_variant(name)).__name__, parse_variant(name))
"""
_SILU = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel
kernel = get_local_kernel(Path(sys.argv[1]))
x = torch.randn(4, 6)
torch.testing.assert_close(kernel.silu_and_mul(x), torch.nn.functional.silu(x[:, :3]) * x[:, 3:])
assert kernel.BACKEND == "cpu"
"""


@pytest.fixture(scope="module")
def python() -> str:
    return python_for([parse("torch213-cxx11-cpu-x86_64-linux")], Releases(), Output())


def _run(*command: str, **environ: str) -> str:
    env = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", **environ})
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _tamper(place: Path) -> None:
    (place / "__init__.py").write_text("import os\n")


def _add(place: Path) -> None:
    (place / "more.py").write_text("")


def _remove(place: Path) -> None:
    (place / "_ops.py").unlink()


def _swap(place: Path) -> None:
    shutil.copy(place.with_name(CU130) / "metadata.json", place)


@pytest.mark.parametrize("spoil", [_tamper, _add, _remove, _swap])
def test_client_sees_what_was_changed(relu: Built, base: Path, spoil: Callable[[Path], None]) -> None:
    build = base / f"spoilt-{spoil.__name__}"
    shutil.copytree(relu.build, build)
    place = build / CPU
    metadata = Metadata.from_bytes((place / "metadata.json").read_bytes())
    assert metadata.digest is not None
    metadata.digest.validate(Digest.hash_variant(metadata.digest.algorithm, place))
    spoil(place)
    stated = Metadata.from_bytes((place / "metadata.json").read_bytes()).digest
    assert stated is not None
    with pytest.raises(DigestValidationError):
        stated.validate(Digest.hash_variant(stated.algorithm, place))


def test_client_loads_the_variant_of_this_torch(relu: Built, python: str) -> None:
    identity = json.loads((relu.build / CPU / "metadata.json").read_text())["id"]
    assert identity in _run(python, "-c", _LOAD, str(relu.build), LD_BIND_NOW="1")


def test_in_a_free_threaded_python_the_library_is_loaded_by_torch(relu: Built, python: str) -> None:
    identity = json.loads((relu.build / CPU / "metadata.json").read_text())["id"]
    _run(python, "-c", _FREE_THREADED + _NOT_IMPORTED, str(relu.build / CPU), identity)


def test_relu_equals_torch(relu: Built, python: str, tmp_path: Path) -> None:
    # The environment with torch has no pytest: lend it ours, which is plain Python.
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        found = origin.parent if origin.name == "__init__.py" else origin
        (tmp_path / found.name).symlink_to(found)
    tests = relu.project / "tests"
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tests}"]
    out = _run(python, "-m", "pytest", *options, str(tests), PYTHONPATH=str(tmp_path), RELU_BUILD=str(relu.build))
    assert " passed" in out
    assert "skipped" not in out


def test_two_builds_of_one_kernel_live_in_one_process(alone: Built, relu: Built, base: Path, python: str) -> None:
    project = copy_project(alone.project, base / "twin")
    package = project / "torch-ext" / "relu" / "__init__.py"
    package.write_text(package.read_text() + "# another version\n")
    assert action_counts(alone.driver.build(project, CPU)) == (1, 0, BINDING)
    first, second = _run(python, "-c", _LOAD, str(relu.build), str(project / "build")).split()
    assert first != second


@pytest.mark.parametrize("variant", RELU)
def test_digests_are_those_of_the_client(relu: Built, python: str, variant: str) -> None:
    stated, computed = json.loads(_run(python, "-c", _DIGEST, str(relu.build / variant)))
    assert stated == computed


def test_client_understands_the_names(relu: Built, python: str) -> None:
    lines = _run(python, "-c", _PARSE, *(path.name for path in relu.build.iterdir())).splitlines()
    assert len(lines) == len(RELU)
    assert all(line.startswith("ArchVariant") and "Torch" in line for line in lines), lines


def test_universal_kernel_computes(universal: Built, python: str) -> None:
    assert [path.name for path in universal.build.iterdir()] == ["torch-universal"]
    _run(python, "-c", _SILU, str(universal.build))
