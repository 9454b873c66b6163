from setuptools import find_packages, setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension

sources = ["csrc/ops.cpp", "csrc/sums.cpp"]
kind, macros, flags = CppExtension, [("SCALE", "2")], {"cxx": ["-O2"]}
if CUDA_HOME is not None:
    sources.append("csrc/scale.cu")
    kind, macros = CUDAExtension, [*macros, ("WITH_CUDA", None)]
    flags["nvcc"] = ["-O3", "--use_fast_math", "-gencode", "arch=compute_80,code=sm_80",
                     "-gencode", "arch=compute_90,code=sm_90", "--threads", "4"]
setup(
    name="scaled-ops",
    version="3.2.1",
    license="MIT",
    packages=find_packages(include=["scaled*"]),
    install_requires=["torch", "packaging"],
    ext_modules=[kind("scaled._C", sources, include_dirs=["csrc"], define_macros=macros, extra_compile_args=flags)],
    cmdclass={"build_ext": BuildExtension},
)
