"""A variant in Pythons other than the one of the tests, with torch's own wheels for them: also free-threaded ones."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import tomli
from clone import copy_project
from pythons import debian_python, free_threaded_python, installed

from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clone import Driver

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_CLIENT = f"kernels=={tomli.loads(resource('load.toml'))['kernels']}"
_USE = """
import json, sys, sysconfig, threading, torch
gil = getattr(sys, "_is_gil_enabled", lambda: True)
before = gil()
import relu
x = torch.tensor([-1.0, 0.0, 2.0, float("nan")])
torch.testing.assert_close(relu.relu(x), torch.relu(x), equal_nan=True)
right = []
def work(seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(100):
        x = torch.randn(257, generator=generator)
        right.append(torch.equal(relu.relu(x), torch.relu(x)))
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
name = relu._ops.ops.__name__.rpartition(".")[2]
print(json.dumps({
    "free-threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "gil": [before, gil()],
    "right": [len(right), all(right)],
    "imported": any(module.endswith("." + name) for module in sys.modules),
}))
"""
_CLIENT_LOADS = """
import pathlib, sys, torch
from kernels import get_local_kernel
relu = get_local_kernel(pathlib.Path(sys.argv[1]), backend="cpu")
x = torch.tensor([-1.0, 2.0])
assert torch.equal(relu.relu(x), torch.relu(x))
"""


def _built(clone: Driver, base: Path, torch: str) -> Path:
    """The directory with examples/relu for the CPU and a torch release, importable as `relu`."""
    project = copy_project(clone.root / "examples" / "relu", base / f"relu-{torch}")
    clone.build(project, f"torch{torch.replace('.', '')}-cxx11-cpu-*")
    [variant] = (project / "build").iterdir()
    (project / "import").mkdir()
    (project / "import" / "relu").symlink_to(variant)
    return project / "import"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A directory for packages, which goes away with the test: torch and what it needs have 5 GB."""
    site = tmp_path / "site"
    yield site
    shutil.rmtree(site, ignore_errors=True)


@pytest.mark.timeout(3600)
def test_a_python_of_another_debian(clone: Driver, base: Path, tmp_path: Path, site: Path) -> None:
    path = _built(clone, base, "2.13")
    python = debian_python("3.14", "forky", tmp_path)
    done = installed(python, site, "torch==2.13.0", _CLIENT)
    assert done.returncode == 0, done.stderr
    done = python.run("-W", "ignore", "-c", _USE, paths=(path, site))
    assert done.returncode == 0, done.stderr
    expected = {"free-threaded": False, "gil": [True, True], "right": [800, True], "imported": True}
    assert json.loads(done.stdout) == expected
    done = python.run("-W", "ignore", "-c", _CLIENT_LOADS, str(path.parent), paths=(site,))
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(3600)
def test_the_oldest_python(clone: Driver, base: Path, tmp_path: Path, site: Path) -> None:
    path = _built(clone, base, "2.8")
    python = debian_python("3.9", "bullseye", tmp_path)
    out = tmp_path / "dist"
    clone.run("wheel", path.parent, "--variant=torch28-cxx11-cpu-*", f"--out={out}")
    [wheel] = out.iterdir()
    done = installed(python, site, "torch==2.8.0", str(wheel))
    assert done.returncode == 0, done.stderr
    expected = {"free-threaded": False, "gil": [True, True], "right": [800, True], "imported": True}
    done = python.run("-W", "ignore", "-c", _USE, paths=(path, site))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected
    other = python.run("-c", "import relu", paths=(site,))
    assert "torch28-cxx11-cpu-x86_64-linux is for the backend cpu" in other.stderr  # and PyPI's torch is for CUDA
    refused = installed(python, tmp_path / "client", "--no-deps", _CLIENT)
    assert refused.returncode == 1
    assert "does not satisfy Python>=3.10" in " ".join(refused.stderr.split())


@pytest.mark.timeout(7200)
def test_a_free_threaded_python(clone: Driver, base: Path, tmp_path: Path, site: Path) -> None:
    path = _built(clone, base, "2.11")
    python = free_threaded_python("3.13", "trixie", tmp_path)
    done = installed(python, site, "torch==2.11.0")
    assert done.returncode == 0, done.stderr
    done = python.run("-W", "ignore", "-c", _USE, paths=(path, site))
    assert done.returncode == 0, done.stderr
    expected = {"free-threaded": True, "gil": [False, False], "right": [800, True], "imported": False}
    assert json.loads(done.stdout) == expected
    refused = installed(python, tmp_path / "client", "--no-deps", _CLIENT)
    assert refused.returncode == 1
    assert "has no usable wheels" in refused.stderr
