from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="precompiled",
    version="0",
    packages=[],
    py_modules=[],
    ext_modules=[
        CppExtension(
            "precompiled",
            ["binding.cpp", "included.cpp", "later.cpp", "reopened.cpp", "specialised.cpp", "types.cpp"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
