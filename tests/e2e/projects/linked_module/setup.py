from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    name="linked-module",
    version="1.0",
    ext_modules=[
        CUDAExtension(
            name="linked_module",
            sources=["csrc/module.cpp", "csrc/curve.cu", "csrc/apply.cu", "csrc/nested.cu"],
            dlink=True,
            dlink_libraries=["cudadevrt"],
            libraries=["cudadevrt"],
            extra_compile_args={"cxx": ["-O2"], "nvcc": ["-O3", "-rdc=true"], "nvcc_dlink": ["-Xnvlink", "-w"]},
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
