"""A project with a setup.py: a module for CPU and CUDA, bound by pybind11, with its tests."""

SETUP = """import os
import torch
from setuptools import find_packages, setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension

sources = ["csrc/ops.cpp"]
kind, macros, flags = CppExtension, [], {"cxx": ["-O2"]}
if CUDA_HOME is not None:
    sources.append("csrc/scale.cu")
    kind, macros = CUDAExtension, [("WITH_CUDA", None)]
    flags["nvcc"] = ["-O3", "--use_fast_math", "-gencode", "arch=compute_80,code=sm_80",
                     "-gencode", "arch=compute_90,code=sm_90", "--threads", "4"]
here = os.path.dirname(os.path.abspath(__file__))
setup(
    name="scaled-ops",
    version="1.2",
    packages=find_packages(include=["scaled*"]),
    install_requires=["torch", "packaging"],
    ext_modules=[kind("scaled._C", sources, include_dirs=[os.path.join(here, "csrc")], define_macros=macros,
                      extra_compile_args=flags)],
    cmdclass={"build_ext": BuildExtension},
)
"""
OPS = """#include <torch/extension.h>
#include "scale.h"

at::Tensor scale(const at::Tensor& input, double factor, std::optional<at::Tensor> bias) {
  TORCH_CHECK(input.dim() > 0, "scale needs a dimension");
#ifdef WITH_CUDA
  if (input.is_cuda()) {
    auto output = at::empty_like(input);
    scale_cuda(input.data_ptr<float>(), output.data_ptr<float>(), input.numel(), factor);
    return output;
  }
#endif
  auto output = input * factor;
  return bias ? output + *bias : output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "scaled ops";
  m.def("scale", &scale, "Scale a tensor.", py::arg("input"), py::arg("factor") = 2.0, py::arg("bias") = py::none());
  m.def("twice", [](int value) { return 2 * value; });
}
"""
FILES = {
    "setup.py": SETUP,
    "scaled/__init__.py": "import torch\n\nfrom scaled._C import scale, twice\n",
    "csrc/ops.cpp": OPS,
    "csrc/scale.h": "void scale_cuda(const float* input, float* output, long count, float factor);\n",
    "csrc/scale.cu": """#include "scale.h"

__global__ void scale_kernel(const float* input, float* output, long count, float factor) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < count) output[i] = input[i] * factor;
}

void scale_cuda(const float* input, float* output, long count, float factor) {
  scale_kernel<<<(count + 255) / 256, 256>>>(input, output, count, factor);
}
""",
    "tests/test_scale.py": """import pytest
import torch

import scaled
from scaled import _C


def test_scale():
    x = torch.ones(3, requires_grad=True)
    assert scaled.scale(x).tolist() == [2, 2, 2]
    assert scaled.scale(x, factor=3.0, bias=torch.ones(3)).tolist() == [4, 4, 4]
    scaled.scale(x, 5).sum().backward()
    assert x.grad.tolist() == [5, 5, 5]


def test_module():
    assert _C.__doc__ == "scaled ops"
    assert _C.twice(21) == 42
    assert "Scale a tensor." in _C.scale.__doc__
    with pytest.raises(TypeError):
        _C.scale("no tensor")
    with pytest.raises(RuntimeError, match="needs a dimension"):
        _C.scale(torch.tensor(1.0))
""",
}
