"""The torch and the toolkit that a setup.py sees: those of the configuration, and no installed ones."""

from __future__ import annotations

import io
import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from setup_projects import BODY, CPU, CU130, RELEASES, SETUP, fault, project, record

from py_driver.building.installed_torch import python_for
from py_driver.errors import Code
from py_driver.matrix.configurations import parse
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("cache")]
ROCM = "torch213-cxx11-rocm72-x86_64-linux"


def test_the_arch_list_that_setup_py_sets_is_recorded(tmp_path: Path) -> None:
    head = "os.environ['TORCH_CUDA_ARCH_LIST'] = '9.0a'"
    recorded = record(project(tmp_path, "import os\n" + head + "\n" + BODY))
    assert recorded.record.arch_list == "9.0a"


@pytest.mark.parametrize(
    ("value", "expected"), [("'Hopper'", "9.0+PTX"), ("''", "8.0;9.0+PTX"), ("'native'", "8.0;9.0+PTX")]
)
def test_an_arch_list_has_no_names(tmp_path: Path, value: str, expected: str) -> None:
    setup = f"import os\nos.environ['TORCH_CUDA_ARCH_LIST'] = {value}\n{BODY}"
    assert record(project(tmp_path, setup)).record.arch_list == expected


def test_another_release_of_torch_may_be_asked_for(tmp_path: Path) -> None:
    setup = BODY.replace('version="1.0",', 'version="1.0", setup_requires=["torch<2", "ninja", "torchvision"],')
    assert record(project(tmp_path, setup)).record.modules


def test_what_torch_says_is_that_of_the_configuration(tmp_path: Path) -> None:
    setup = """
import torch, sys, os, platform, subprocess
from importlib.metadata import version
from torch.utils import cpp_extension as c
print(version("torch"))
sys.exit(repr([str(torch.__version__), torch.__version__ >= (2, 13), torch.version.cuda, torch.version.hip,
    torch.cuda.is_available(), torch.cuda.device_count(),
    torch.cuda.get_device_capability(), torch.cuda.get_arch_list(),
    torch._C._GLIBCXX_USE_CXX11_ABI, c.CUDA_HOME == os.getenv("CUDA_HOME"), c.ROCM_HOME, os.getenv("FORCE_CUDA"),
    platform.machine(), os.cpu_count(), torch.backends.mps.is_available(), hasattr(torch, "nothing"),
    "OpenMP" in torch.__config__.parallel_info(), c._get_cuda_arch_flags() if torch.version.cuda else None]))
"""
    directory = project(tmp_path, setup)
    archs = ["arch=compute_80,code=sm_80", "arch=compute_90,code=compute_90", "arch=compute_90,code=sm_90"]
    expected = [
        "2.13.0+cu130",
        True,
        "13.0",
        None,
        True,
        2,
        (9, 0),
        ["sm_80", "sm_90"],
        True,
        True,
        None,
        "1",
        "x86_64",
    ]
    expected += [4, False, False, True, [f"-gencode={arch}" for arch in archs]]
    assert fault(directory).message == f"setup.py ends with sys.exit: {expected!r}"
    assert fault(directory, CPU).message == "setup.py raises AssertionError: Torch not compiled with CUDA enabled"


@pytest.mark.parametrize(
    ("identifier", "version"),
    [
        ("torch24-cxx98-cu118-x86_64-linux", "11.8 11.8.89"),
        ("torch27-cxx11-cu128-x86_64-linux", "12.8 12.8.93"),
        (CU130, "13.0 13.0.88"),
        ("torch215-cxx11-cu132-x86_64-linux", "13.2 13.2.78"),
    ],
)
def test_nvcc_answers_with_the_version_of_the_toolkit(tmp_path: Path, identifier: str, version: str) -> None:
    setup = """
import subprocess, re, sys, os
text = subprocess.check_output([os.environ["CUDA_HOME"] + "/bin/nvcc", "--version"], text=True)
sys.exit(re.search(r"release (\\S+),", text)[1] + " " + re.search(r", V(\\S+)", text)[1])
"""
    assert fault(project(tmp_path, setup), identifier).message == f"setup.py ends with sys.exit: {version}"


FACTS = """
import json, os, sys
import torch
from torch.utils import cpp_extension as c
os.environ["TORCH_CUDA_ARCH_LIST"] = "7.5;8.0+PTX 9.0a;Hopper"
module = c.CppExtension("x", ["a.cpp"], libraries=["m"], include_dirs=["i"], library_dirs=["l"], py_limited_api=True)
torch_path = os.path.dirname(torch.__file__)
values = [
    str(torch.__version__), torch.__version__ > "2.9", torch.__version__ == "2.13.0+cpu", torch.version.cuda,
    torch.version.hip, torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.get_arch_list(),
    torch.compiled_with_cxx11_abi(), torch._C._GLIBCXX_USE_CXX11_ABI, torch.backends.mps.is_available(),
    torch.backends.openmp.is_available(), torch.xpu.is_available(),
    torch.has_cuda, torch.has_cudnn, torch.has_mkldnn, torch.has_mps,
    "backend: OpenMP" in torch.__config__.parallel_info(), "OpenMP not found" in torch.__config__.parallel_info(),
    c.CUDA_HOME, c.ROCM_HOME, c.HIP_HOME, c.IS_HIP_EXTENSION, c.IS_WINDOWS, c.CUDNN_HOME, c.ROCM_VERSION,
    c.COMMON_NVCC_FLAGS, c.COMMON_HIP_FLAGS, c.COMMON_HIPCC_FLAGS, c.LIB_EXT, c._get_cuda_arch_flags(),
    c._get_cuda_arch_flags(["-gencode=arch=compute_80,code=sm_80"]), sorted(c.__all__),
    [os.path.relpath(path, torch_path) for path in c.include_paths() + c.library_paths() + [c.TORCH_LIB_PATH]],
    module.libraries, len(module.include_dirs), len(module.library_dirs), module.language, module.extra_compile_args,
    [name for name in c.__all__ if not hasattr(c, name)],
    c.BuildExtension.with_options(use_ninja=False).__mro__[1].__name__,
]
with open("facts.json", "w") as file:
    json.dump(values, file, indent=1)
"""


def test_the_stand_in_answers_as_torch_does(tmp_path: Path) -> None:
    python = python_for([parse(CPU)], RELEASES, Output(io.StringIO(), io.StringIO()))
    real = tmp_path / "real"
    real.mkdir()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(real)}
    subprocess.run([python, "-c", FACTS], cwd=real, env=env, check=True)
    setup = f"{FACTS}\nfrom setuptools import setup\nsetup(name='x', version='1', py_modules=[])\n"
    recorded = record(project(tmp_path, setup), CPU)
    ours = (recorded.directory / "tree" / "facts.json").read_text(encoding="utf-8")
    assert json.loads(ours) == json.loads((real / "facts.json").read_text(encoding="utf-8"))


def test_rocm_has_its_own_toolkit(tmp_path: Path) -> None:
    recorded = record(project(tmp_path, SETUP), ROCM)
    assert recorded.record.modules[0].sources == ("a.cpp", "b.cu")
    assert recorded.record.arch_list == "gfx942"
    message = "import torch, sys\nsys.exit(f'{torch.__version__} {torch.version.hip} {torch.version.cuda}')"
    assert fault(project(tmp_path / "other", message), ROCM).message.endswith("2.13.0+rocm7.2 7.2.4 None")


def test_another_cpu_names_files_and_wheels(tmp_path: Path) -> None:
    recorded = record(project(tmp_path, SETUP), "torch213-cxx11-cu130-aarch64-linux")
    assert recorded.record.modules[0].file == "thing_cuda.cpython-311-aarch64-linux-gnu.so"
    assert recorded.record.wheel == "thing-1.0-cp311-cp311-linux_aarch64.whl"


def test_what_a_setup_py_asks_before_it_builds_has_an_answer(tmp_path: Path) -> None:
    text = """
import subprocess
import torch.mps
from torch._C import parse_schema
subprocess.check_call(["pip", "uninstall", "thing", "-y"])
try:
    torch.mps.current_allocated_memory()
except RuntimeError:
    pass
"""
    assert record(project(tmp_path, text + BODY)).record.modules
    found = fault(project(tmp_path / "other", "from torch._C import parse_schema\nparse_schema('aten::f() -> ()')\n"))
    assert (found.code, found.message) == (
        Code.UNSUPPORTED,
        "`torch._C.parse_schema` asks for the ops of torch: aten::f",
    )


def test_what_only_rocm_needs_can_be_imported(tmp_path: Path) -> None:
    assert record(project(tmp_path, "from torch.utils.hipify import hipify_python\n" + BODY)).record.modules
