"""The settings of a build: their possible values and their defaults.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# Settings of a whole build, which a command line may set; they apply where the attribute of kernel_objects is empty.
# `programs` is about the rules' own programs: a release contains them compiled, a checkout only their source.
FLAGS = {
    "compress": {"default": "release", "values": ["release", "size", "balance", "speed", "none"]},
    "cuda_compile": {"default": "split", "values": ["split", "monolithic"]},
    "cxx": {"default": "clang", "values": ["clang", "gcc"]},
    "headers": {"default": "needed", "values": ["needed", "full"]},
    "programs": {"default": "prebuilt", "values": ["prebuilt", "source"]},
}

# Settings of a variant, which its target sets, never a command line: a torch version (`2.13`), an ABI (`cxx11`; stable:
# `2.9`), a backend (`cpu`, `cu130`), a Python (`3.13`) where pybind11 binds modules, and, where a variant tries other
# options for a section, JSON with the section and the options.
VARIANT = ["torch", "cxx_abi", "stable_abi", "backend", "python", "more_flags"]

# The value of a variant's setting for a target that does not depend on it.
NONE = "none"

# The C++ ABIs of torch; the first is the compilers' default.
CXX_ABIS = ["cxx11", "cxx98"]
