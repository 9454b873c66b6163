"""What an extension calls of CUDA's and ROCm's libraries, from the source to the check of what was linked."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from clone import PROJECTS
from elftools.elf.elffile import ELFFile

from py_driver.building import build as building
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_ROCM = """
[kernel.three]
backend = "rocm"
depends = []
src = ["csrc/three.hip"]
rocm-archs = ["gfx942"]
"""
_HIP = """#include <hip/hip_runtime.h>
__global__ void three(int* out) { *out = 3; }
"""


def project(directory: Path, *calls: str) -> Path:
    """The tiny project, whose binding calls functions that are declared and nowhere defined."""
    made = directory / "tiny"
    shutil.copytree(PROJECTS / "tiny", made)
    with (made / "torch-ext" / "binding.cpp").open("a", encoding="utf-8") as binding:
        for call in calls:
            binding.write(f'extern "C" int {call}(int*);\nint of_{call} = {call}(nullptr);\n')
    manifest = made / "build.toml"
    text = manifest.read_text(encoding="utf-8").replace('["cpu", "cuda"]', '["cpu", "cuda", "rocm"]')
    manifest.write_text(text + _ROCM, encoding="utf-8")
    (made / "csrc" / "three.hip").write_text(_HIP, encoding="utf-8")
    return made


def needed(built: Path) -> set[str]:
    """The libraries that the one extension below a directory needs."""
    [library] = built.rglob("*.abi3.so")
    with library.open("rb") as file:
        dynamic: Any = ELFFile(file).get_section_by_name(".dynamic")
        return {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}


@pytest.mark.parametrize(
    ("variant", "calls"),
    [
        ("torch213-*-cu130-*", ["custom_gemm", "cublasNonsense", "nvFoo", "cudnnFoo"]),
        pytest.param(
            "torch213-*-rocm72-*",
            ["custom_gemm", "hipFoo", "rocblas_nonsense", "miopenFoo"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["cuda", "rocm"],
)
def test_a_function_that_nobody_defines(variant: str, calls: list[str], tmp_path: Path) -> None:
    made = project(tmp_path, *calls)
    with pytest.raises(DriverError) as failure:
        building.build(made, [variant], Releases(), Output())
    assert [diagnostic.code for diagnostic in failure.value.diagnostics] == [Code.NOT_COMPLIANT, Code.BUILD_FAILED]
    said = failure.value.diagnostics[0].text
    for call in calls:
        assert f"  undefined-symbol: {call}: no library defines it" in said


@pytest.mark.parametrize(
    ("variant", "calls"),
    [
        ("torch213-*-cu130-*", {"cublasSgemm_v2": "libcublas.so.13", "cuGetErrorName": "libcuda.so.1"}),
        pytest.param(
            "torch25-cxx98-cu118-*",
            {"cublasSgemm_v2": "libcublas.so.11", "curandGenerate": "libcurand.so.10"},
            marks=pytest.mark.slow,
        ),
        ("torch213-*-rocm72-*", {"rocblas_sgemm": "librocblas.so.5", "hipblasSgemm": "libhipblas.so.3"}),
    ],
    ids=["cu130", "cu118", "rocm72"],
)
def test_what_is_called_is_needed(variant: str, calls: dict[str, str], tmp_path: Path) -> None:
    made = project(tmp_path, *calls)
    building.build(made, [variant], Releases(), Output())
    runtime = {"libcudart.so.13", "libcudart.so.11.0", "libamdhip64.so.7"}
    others = {
        library
        for library in needed(made / "build") - runtime
        if library.startswith(("libcu", "libhip", "libroc", "libnv"))
    }
    assert others == set(calls.values())
