"""Compiler options and include directories that the rules, the toolchains and the driver's `ide` share.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# For every compile with clang. Headers and libraries of the host are never found, since no default directory is
# searched. With an author's -Werror, flags of gcc that clang does not know would be errors: -Wno-maybe-uninitialized.
CLANG_FLAGS = [
    "--driver-mode=g++",
    "-nostdinc",
    "-nostdinc++",
    "-Wno-error=ignored-optimization-argument",
    "-Wno-error=unknown-warning-option",
]

# C++ standard of sources that include no torch header: the default of nvcc 13. It is the same for every torch version,
# so that all versions share their objects.
CXX_STANDARD = 17

# The linker's version script decides what is exported. Without the last flag, the visibility of function templates
# would depend on whether a header defines the types of their arguments or only declares them.
VISIBILITY = ["-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]

# nvcc's options in torch's own builds (COMMON_NVCC_FLAGS of torch.utils.cpp_extension), without the four that remove
# the operators of half types.
NVCC_FLAGS = ["--expt-relaxed-constexpr", "--expt-extended-lambda"]

# Where Debian's packages have the headers of libstdc++, below `usr/include`, in the order of the search.
LIBSTDCXX_INCLUDES = ["c++/12", "{cpu}-linux-gnu/c++/12", "c++/12/backward"]

# The first part of the name of zig's directory of Linux headers for a CPU, which serves all its kinds: `{kernel}`
# below.
KERNEL_CPUS = {"aarch64": "aarch64", "x86_64": "x86"}

# Where Debian's packages of gcc have its programs, headers and libraries: for the CPU that it runs on, and for another one.
GCC_DIRECTORY = "usr/lib/gcc/{cpu}-linux-gnu/12"
GCC_CROSS_DIRECTORY = "usr/lib/gcc-cross/{cpu}-linux-gnu/12"

# zig's headers of glibc and Linux, below `lib/libc/include`, in the order of the search. The machine's headers have had
# two names in zig: where an entry lists several directories, the first that exists counts.
LIBC_INCLUDES = [
    ["{cpu}-linux-gnu", "{kernel}-linux-gnu"],
    ["generic-glibc"],
    ["{kernel}-linux-any", "{cpu}-linux-any"],
    ["any-linux-any"],
]

# Where torch's wheel has its headers, below `torch`, in the order of the search.
TORCH_INCLUDES = ["include", "include/torch/csrc/api/include"]

# Where CUDA's headers are, in the order of nvcc's search: the second directory from CUDA 13 on, as nvcc.profile says.
CUDA_INCLUDES = ["include", "include/cccl"]

# Macros for tvm-ffi's headers: the name that upstream defines for the id in a tvm-ffi project, mapped to
# registration.h's.
TVM_FFI_DEFINES = ["TVM_FFI_EXTENSION_NAME=TORCH_EXTENSION_NAME"]

# The directories of CUTLASS: the library, and the utilities for the host side, which kernels use, for example for
# packed strides.
CUTLASS_INCLUDES = ["include", "tools/util/include"]

# The C and C++ flags that Python's own CFLAGS add to every build of setuptools (`sysconfig.get_config_var("CFLAGS")`),
# and that change the meaning of sources: signed integers and pointers wrap around. Up to Python 3.11 it is `-fwrapv`,
# from 3.12 on this flag, which clang and gcc read as `-fwrapv -fwrapv-pointer`; it serves wheels for all versions.
SETUPTOOLS_FLAGS = ["-fno-strict-overflow"]
