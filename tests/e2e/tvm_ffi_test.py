"""A kernel that is bound with tvm-ffi, in the hands of the real `kernels` client, with torch and without."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from clone import BINDING, CPU, PROJECTS, Built, Driver, action_counts, copy_project, cuda_actions
from elftools.elf.elffile import ELFFile
from hub import served

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_CPU, _CU130 = (f"tvm-ffi01-{backend}-x86_64-linux" for backend in ("cpu", "cu130"))
_ENTRIES = {"__tvm_ffi_scale", "__tvm_ffi_unique_id"}
_SCALE = """
import sys
from pathlib import Path
from kernels import get_local_kernel
import numpy
kernel = get_local_kernel(Path(sys.argv[1]), backend="cpu")
x = numpy.arange(7, dtype=numpy.float32)
assert (kernel.scale(numpy.empty_like(x), x, 3.0) == 3 * x).all()
if sys.argv[2] == "torch":
    import torch
    x = torch.randn(7, 5)
    torch.testing.assert_close(kernel.scale(torch.empty_like(x), x, -2.5), x * -2.5)
    x = x.double()
else:
    assert "torch" not in sys.modules
    x = x.astype("f8")
try:
    kernel.scale(x, x, 1.0)
except TypeError as refused:
    assert "not float32" in str(refused)
else:
    raise AssertionError("float64 was taken")
import tvm_ffi
assert kernel.TARGET == f"{kernel.unique_id()}.scale"
print(tvm_ffi.__version__, kernel.unique_id(), Path(kernel.__file__).parent.name)
"""
_FROM_HUB = """
import kernels, numpy
kernel = kernels.get_kernel("me/tvm-scale", version=1, backend="cpu")
x = numpy.arange(3, dtype=numpy.float32)
assert (kernel.scale(numpy.empty_like(x), x, 2.0) == 2 * x).all()
"""
_WITHOUT_TORCH = ["kernels==0.17.2", "numpy>=2", "apache-tvm-ffi==0.1.9"]


@pytest.fixture(scope="module")
def tvm_ffi(clone: Driver, base: Path) -> Built:
    """The project, built for the CPU and for one CUDA release."""
    project = copy_project(PROJECTS / "tvm_ffi", base / "tvm_ffi")
    return Built(driver=clone, project=project, result=clone.build(project, _CPU, _CU130))


def _elf(directory: Path) -> tuple[str, set[str], set[str]]:
    """The name of a variant's library, what it needs, and what it exports."""
    [library] = directory.glob("*.so")
    with library.open("rb") as file:
        elf: Any = ELFFile(file)
        needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        table = elf.get_section_by_name(".dynsym").iter_symbols()
        exported = {symbol.name for symbol in table if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"}
    return library.name, needed, exported


def test_each_section_and_binding_is_compiled_once(tvm_ffi: Built) -> None:
    assert sorted(path.name for path in tvm_ffi.build.iterdir()) == [_CPU, _CU130]
    assert action_counts(tvm_ffi.result) == (1 + 2 * BINDING + cuda_actions(2), 0, 0)


@pytest.mark.parametrize(("variant", "more"), [(_CPU, set()), (_CU130, {"libcudart.so.13"})])
def test_library_needs_and_exports_nothing_else(tvm_ffi: Built, variant: str, more: set[str]) -> None:
    name, needed, exported = _elf(tvm_ffi.build / variant)
    metadata = json.loads((tvm_ffi.build / variant / "metadata.json").read_text())
    assert name == f"{metadata['id']}.so"
    assert needed == {"libtvm_ffi.so", "libstdc++.so.6", "libgcc_s.so.1", "libc.so.6", *more}
    assert exported == _ENTRIES
    assert metadata["backend"].get("archs", []) == (["8.0", "9.0"] if more else [])


def _load(python: str, build: Path, framework: str) -> list[str]:
    environment = curated(extra={"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "LD_BIND_NOW": "1"})
    command = [python, "-c", _SCALE, str(build), framework]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_torch_and_numpy_compute_with_it(tvm_ffi: Built) -> None:
    identity = json.loads((tvm_ffi.build / _CPU / "metadata.json").read_text())["id"]
    releases, output = Releases(), Output()
    torch = python_for([parse(CPU)], releases, output)  # which other tests have, too
    bound = [releases.lock.tvm_ffi_requirement("0.1")]
    python = ensure_venv("load", bound, output, python=torch, inherit=True)
    version, unique_id, variant = _load(str(python), tvm_ffi.build, "torch")
    assert (version, unique_id, variant) == ("0.1.15.post2", identity, _CPU)


def test_an_older_patch_release_loads_it_without_torch(tvm_ffi: Built) -> None:
    python = ensure_venv("load", _WITHOUT_TORCH, Output())
    assert _load(str(python), tvm_ffi.build, "numpy")[0] == "0.1.9"


def test_it_is_published_and_loaded_from_the_hub(tvm_ffi: Built, tmp_path: Path) -> None:
    python = ensure_venv("load", _WITHOUT_TORCH, Output())
    with served() as hub:
        environ = {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path)}
        options = ["--repo-id=me/tvm-scale", "--allow-dirty", f"--variant={_CPU}"]
        tvm_ffi.driver.run("publish", tvm_ffi.project, *options, env={**environ, "HF_TOKEN": "hf_x"})
        card = (hub.repositories["me/tvm-scale"].files("main") or {})["README.md"].decode()
        sources = (hub.repositories["me/tvm-scale"].files("v1") or {})[f"sbom/{_CPU}.cdx.json"].decode()
        env = curated(extra={**environ, "PYTHONDONTWRITEBYTECODE": "1"})
        command = [str(python), "-c", _FROM_HUB]
        done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"| `{_CPU}` | tvm-ffi 0.1 | any | `cpu` | - |" in card
    assert "apache-tvm-ffi" in sources
    assert '"torch"' not in sources


def test_what_no_library_defines_is_named(tvm_ffi: Built, base: Path) -> None:
    project = copy_project(tvm_ffi.project, base / "undefined_tvm_ffi")
    source = project / "scale_cpu" / "scale.cpp"
    source.write_text(source.read_text() + 'extern "C" int TVMFFINoSuch();\nint volatile kept = TVMFFINoSuch();\n')
    wrong = tvm_ffi.driver.run("build", project, "--variant", _CPU, code=5)
    assert "undefined-symbol: TVMFFINoSuch: no library defines it" in wrong.stderr


def test_a_binding_that_exports_nothing_fails_the_check(tvm_ffi: Built, base: Path) -> None:
    project = copy_project(tvm_ffi.project, base / "silent_tvm_ffi")
    (project / "tvm-ffi-ext" / "binding.cpp").write_text("int nothing;\n")
    wrong = tvm_ffi.driver.run("build", project, "--variant", _CPU, code=5)
    assert "init-function: __tvm_ffi_*: not exported, so tvm-ffi finds no function" in wrong.stderr


def test_there_is_no_wheel(tvm_ffi: Built) -> None:
    wrong = tvm_ffi.driver.run("wheel", tvm_ffi.project, code=2)
    assert "error[E008]: there is no wheel of a kernel that is bound with tvm-ffi" in wrong.stderr
