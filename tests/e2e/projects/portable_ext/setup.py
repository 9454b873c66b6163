from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="portable-ext",
    version="1.0",
    packages=["portable_ext"],
    ext_modules=[
        CppExtension("portable_ext._C", ["csrc/portable.cpp", "csrc/ops.cpp"], include_dirs=["."], py_limited_api=True)
    ],
    cmdclass={"build_ext": BuildExtension},
)
