"""The backends that are built: the facts about each that the rules, the toolchains and the driver share, by its name.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# Each backend has all of these keys; for a backend without a toolkit, such as the CPU, some are empty:
#
# defines: further macros of every compile, each with its value after `=`.
# device_arch: the attribute of torch's device properties that names the architecture; empty if `major` and `minor` do.
# dispatch_keys: torch's dispatch keys of the tensors that its kernels accept.
# example: an architecture, for messages.
# flags: the attribute of kernel_objects with the options of its own compiler; the key of build.toml has `-` instead of
#     `_`.
# languages: the languages of device code, by file extension; all other sources are C++.
# macro: the macro that every compile for this backend alone defines, so that a binding can tell backends apart; not
#     `USE_CUDA`, which hipify turns into `USE_ROCM`.
# newer_toolkits: whether a variant runs with a later minor version of the toolkit than it was built with.
# prefix: the prefix of a toolkit's name in a variant; the release follows, as in `cu130`.
# rewriter: the mnemonic of the action that first rewrites the sources of a section, and headers of torch; empty if they
#     are compiled unchanged.
# title: its name in messages.
# torch_attribute: the attribute of `torch.version` that names the toolkit of torch's own build.
# torch_build: the suffix of the version in the setting `torch`, as in torch's own local versions (`2.13.0+rocm7.2`).
# torch_libraries: torch's libraries that its extensions are linked with, besides the CPU's.
# way: how its sources are compiled: the prefix of its `ways` in phases.bzl.
BACKENDS = {
    "cpu": {
        "defines": [],
        "device_arch": "",
        "dispatch_keys": ["CPU"],
        "example": "",
        "flags": "cxx_flags",
        "languages": {},
        "macro": "CPU_KERNEL",
        "newer_toolkits": False,
        "prefix": "",
        "rewriter": "",
        "title": "CPU",
        "torch_attribute": "",
        "torch_build": "",
        "torch_libraries": ["libtorch.so", "libtorch_cpu.so", "libc10.so"],
        "way": "cxx",
    },
    "cuda": {
        "defines": ["USE_CUDA=1", "ENABLE_FP8"],
        "device_arch": "",
        "dispatch_keys": ["CUDA"],
        "example": "8.0",
        "flags": "cuda_flags",
        "languages": {"cu": "CUDA"},
        "macro": "CUDA_KERNEL",
        "newer_toolkits": True,
        "prefix": "cu",
        "rewriter": "",
        "title": "CUDA",
        "torch_attribute": "cuda",
        "torch_build": "",
        "torch_libraries": ["libtorch_cuda.so", "libc10_cuda.so"],
        "way": "cuda",
    },
    "rocm": {
        # The last three are torch's own for ROCm: COMMON_HIP_FLAGS and COMMON_HIPCC_FLAGS of torch.utils.cpp_extension,
        # without the macros that remove the operators of half types.
        "defines": ["USE_ROCM=1", "__HIP_PLATFORM_AMD__=1", "CUDA_HAS_FP16=1", "ENABLE_FP8"],
        "device_arch": "gcnArchName",
        "dispatch_keys": ["CUDA", "HIP"],
        "example": "gfx942",
        "flags": "hip_flags",
        "languages": {"cu": "CUDA", "hip": "HIP"},
        "macro": "ROCM_KERNEL",
        "newer_toolkits": False,
        "prefix": "rocm",
        "rewriter": "Hipify",
        "title": "ROCm",
        "torch_attribute": "hip",
        "torch_build": "+rocm",
        "torch_libraries": ["libtorch_hip.so", "libc10_hip.so"],
        "way": "hip",
    },
}

# The extensions of C++ sources.
CXX_EXTENSIONS = ["cpp", "cc", "cxx"]

# Languages besides C++ that the host compiler compiles, by extension, as clang names them. Their sources do not see the
# id of the kernel, and read all headers; gcc compiles C++ alone.
OTHER_LANGUAGES = {"S": "assembler-with-cpp", "c": "c"}
