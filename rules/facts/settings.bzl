"""The settings of a build: what they may be, and what they are where nobody chooses.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# Those of a whole build, which a command line may set; an attribute of kernel_objects that is empty means them. `programs`
# is about the rules' own programs: a release has them compiled, a checkout has their source alone.
FLAGS = {
    "compress": {"default": "release", "values": ["release", "size", "balance", "speed", "none"]},
    "cuda_compile": {"default": "split", "values": ["split", "monolithic"]},
    "cxx": {"default": "clang", "values": ["clang", "gcc"]},
    "headers": {"default": "needed", "values": ["needed", "full"]},
    "programs": {"default": "prebuilt", "values": ["prebuilt", "source"]},
}

# Those of a variant, which its target sets and no command line: a torch version (`2.13`), an ABI (`cxx11`; stable: `2.9`), a
# backend (`cpu`, `cu130`), a Python (`3.13`) where modules are bound by pybind11, and, where a variant tries other options for a section of its sources, JSON with the section
# and the options.
VARIANT = ["torch", "cxx_abi", "stable_abi", "backend", "python", "more_flags"]

# What a setting of a variant is for a target that does not depend on it.
NONE = "none"

# The C++ ABIs of torch; compilers take the first one if they are told none.
CXX_ABIS = ["cxx11", "cxx98"]
