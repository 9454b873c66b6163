"""A project with a setup.py for ROCm: recorded, its sources rewritten by hipify, compiled, and checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from py_driver import __main__

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

ROCM = "torch213-cxx11-rocm72-x86_64-linux"
FILES = {
    "setup.py": """import torch
from setuptools import setup
from torch.utils.cpp_extension import IS_HIP_EXTENSION, BuildExtension, CppExtension, CUDAExtension

assert IS_HIP_EXTENSION == (torch.version.hip is not None)
flags = ["-O3"] if IS_HIP_EXTENSION else ["-O3", "--use_fast_math"]
setup(
    name="hip-ops",
    version="1.0",
    packages=["hip_ops"],
    ext_modules=[
        CUDAExtension("hip_ops._C", ["csrc/ops.cpp", "csrc/scale.cu"], extra_compile_args={"cxx": [], "nvcc": flags}),
        CppExtension("hip_ops._plain", ["csrc/plain.cpp"]),
    ],
    cmdclass={"build_ext": BuildExtension},
)
""",
    "hip_ops/__init__.py": "",
    "csrc/plain.cpp": """#include <Python.h>

#ifdef WITH_CUDA
#include <cuda_runtime.h>
#endif

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_plain", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit__plain() { return PyModule_Create(&definition); }
""",
    "csrc/scale.cuh": "#include <cuda_runtime.h>\ncudaError_t scale(float* values, long count, cudaStream_t stream);\n",
    "csrc/ops.cpp": """#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>
#include "scale.cuh"

void scale_(at::Tensor& values) {
  const at::cuda::OptionalCUDAGuard guard(values.device());
  C10_CUDA_CHECK(scale(values.data_ptr<float>(), values.numel(), at::cuda::getCurrentCUDAStream()));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale_", &scale_); }
""",
    "csrc/scale.cu": """#include "scale.cuh"

__global__ void scale_kernel(float* values, long count) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < count) values[i] *= 2;
}

cudaError_t scale(float* values, long count, cudaStream_t stream) {
  scale_kernel<<<(count + 255) / 256, 256, 0, stream>>>(values, count);
  return cudaGetLastError();
}
""",
}


def needed(library: Path) -> set[str]:
    """Which libraries a library needs."""
    with library.open("rb") as file:
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        return {str(tag.needed) for tag in dynamic.iter_tags("DT_NEEDED")}  # type: ignore[attr-defined]  # set for this tag


def test_a_cuda_extension_is_compiled_for_amd_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    project = tmp_path / "project"
    words = ["build", str(project), f"--variant={ROCM}", "--archs=gfx942", "--json"]
    assert __main__.main(words) == 0
    [variant] = json.loads(capsys.readouterr().out)["variants"]
    assert variant["modules"] == ["hip_ops._C", "hip_ops._plain"]
    built = project / "build" / ROCM / "hip_ops"
    library = built / "lib_C.so"
    assert (built / "_plain.abi3.so").is_file()
    assert {"libamdhip64.so.7", "libc10_hip.so"} <= needed(library)
    assert b"gfx942" in library.read_bytes()


def test_rocm_is_built_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert __main__.main(["check", str(tmp_path), "--json"]) == 0
    records = json.loads(capsys.readouterr().out)["records"]
    assert records
    assert not [name for name in records if "rocm" in name]
