"""From a build to a Hub, and from there through the real client into a process: the op runs, in two versions."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import CPU, copy_project
from hub import served

from py_driver.building.installed_torch import python_for
from py_driver.building.made import remember
from py_driver.building.selection import made_from
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.plan.plan import plan_directory
from py_driver.system.cache import CACHE_VARIABLE
from py_driver.system.environment import curated
from py_driver.system.pip_config import pip_of

if TYPE_CHECKING:
    from clone import Built

pytestmark = pytest.mark.e2e

_CANARY = "hf_CANARYcanaryCANARYcanaryCANARYcanary"
_LOAD = """
import kernels, torch
loaded = [kernels.get_kernel("me/relu", version=version, backend="cpu") for version in (1, 2)]
x = torch.tensor([-1.0, 2.0, float("nan")])
for relu in loaded:
    torch.testing.assert_close(relu.relu(x), torch.relu(x), equal_nan=True)
print(*(relu.__name__ for relu in loaded))
"""


def test_published_kernel_is_loaded_from_the_hub(relu: Built, base: Path, tmp_path: Path) -> None:
    python = python_for([parse(CPU)], Releases(), Output())
    second = copy_project(relu.project, base / "second")
    manifest = second / "build.toml"
    manifest.write_text(manifest.read_text().replace("\nversion = 1\n", "\nversion = 2\n"))
    relu.driver.build(second, CPU)
    with served() as hub:
        environ = {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "hf")}
        for project in (relu.project, second):
            token = {**environ, "HF_TOKEN": _CANARY}
            options = ["--repo-id=me/relu", "--allow-dirty", f"--variant={CPU}"]
            relu.driver.run("publish", project, *options, env=token)
        assert set(hub.repositories["me/relu"].branches) == {"main", "v1", "v2"}
        assert {request.token for request in hub.requests if "commit/" in request.what} == {_CANARY}
        env = curated(extra={**environ, "PYTHONDONTWRITEBYTECODE": "1"})
        done = subprocess.run([python, "-c", _LOAD], env=env, cwd="/", capture_output=True, text=True, check=False)
        hub.trusted = False
        files = hub.repositories["me/relu"].files("main")
        assert files is not None
        [code] = re.findall(r"```python\n(import kernels\n.*?)```", files["README.md"].decode(), re.DOTALL)
        plain = re.sub(r", trust_remote_code=\[.*?\]", "", code)
        refused, card = (
            subprocess.run([python, "-c", text], env=env, cwd="/", capture_output=True, text=True, check=False)
            for text in (plain, code)
        )
    assert done.returncode == 0, done.stderr
    assert "is not from a trusted publisher" in refused.stderr
    assert (card.returncode, plain) == (0, code.replace(', trust_remote_code=["me/relu"]', "")), card.stderr
    places = ("*/*.log*", "*/server/*", "*/*.profile.gz")
    logs = [[path for path in relu.driver.output.glob(pattern) if path.is_file()] for pattern in places]
    assert all(logs)
    assert [path for log in logs for path in log if _CANARY.encode() in _read(path)] == []
    first, other = done.stdout.split()
    assert first.startswith("_relu_cpu_")
    assert first != other


def _read(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


_IMPORT = """
import relu, torch
x = torch.tensor([-1.0, 2.0, float("nan")])
torch.testing.assert_close(relu.relu(x), torch.relu(x), equal_nan=True)
print(relu.ops)
"""


def test_wheel_is_installed_and_loads_what_fits(relu: Built, tmp_path: Path) -> None:
    python = python_for([parse(CPU)], Releases(), Output())
    relu.driver.run("wheel", relu.project, f"--out={tmp_path}")
    [wheel] = tmp_path.glob("relu-1.0-cp39-abi3-manylinux_2_28_x86_64.whl")
    site = tmp_path / "site"
    pip = pip_of(sys.executable, python)
    install = [*pip, "install", "--quiet", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True)
    env = curated(extra={"PYTHONPATH": str(site)})
    done = subprocess.run([python, "-c", _IMPORT], env=env, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "_relu_cpu_" in done.stdout


def test_auditwheel_lets_the_wheel_be_what_its_tag_says(relu: Built, tmp_path: Path) -> None:
    relu.driver.run("wheel", relu.project, f"--out={tmp_path}")
    [wheel] = tmp_path.glob("*.whl")
    tools = Path(sys.executable).parent
    brought = [f"--exclude={name}" for name in ("libtorch*.so", "libc10*.so", "libcudart.so.*", "libamdhip64.so.*")]
    command = [str(tools / "auditwheel"), "repair", "--plat=manylinux_2_28_x86_64", *brought]
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*command, f"--wheel-dir={tmp_path / 'out'}", str(wheel)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [repaired] = (tmp_path / "out").glob("relu-1.0-*manylinux_2_28_x86_64.whl")
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(repaired) as after:
        libraries = [{n for n in archive.namelist() if ".so" in n} for archive in (before, after)]
        assert libraries[0] == libraries[1] != set()


def test_library_that_is_not_compliant_is_not_published(
    relu: Built, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = copy_project(relu.project, base / "abi")
    relu.driver.build(project, CPU)
    other = CPU.replace("torch213-cxx11", "torch26-cxx98")
    place = (project / "build" / CPU).rename(project / "build" / other)
    with served() as hub:
        environ = {"HF_ENDPOINT": hub.address, "HF_TOKEN": "hf_token", "HF_HUB_DISABLE_XET": "1"}
        failed = relu.driver.run("publish", project, "--repo-id=me/relu", env=environ, code=2)
        assert "error[E404]" in failed.stderr  # it is no build of that variant
        monkeypatch.setenv(CACHE_VARIABLE, str(relu.driver.cache))
        plan = plan_directory(project, Releases())
        [variant] = [planned for planned in plan.variants if planned.name == other]
        remember(place, made_from(plan, variant, {}, Releases().lock))
        failed = relu.driver.run("publish", project, "--repo-id=me/relu", env=environ, code=5)
        assert "error[E402]" in failed.stderr
        assert hub.requests == []
