"""How compilers are called, whatever they compile: what the rules, the toolchains and the driver's `ide` all need to know.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# Of every compile with clang. No header and no library of the host's is found, since none of the default directories is
# searched.
CLANG_FLAGS = [
    "--driver-mode=g++",
    "-nostdinc",
    "-nostdinc++",
]

# C++ standard of sources that include no torch header: what nvcc 13 takes by default. It is the same for every torch
# version, so that their objects are too.
CXX_STANDARD = 17

# The linker's version script decides what is exported. Without the last flag the visibility of function templates would
# depend on whether a header has defined their arguments or only declared them.
VISIBILITY = ["-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]

# nvcc's options in torch's own builds (COMMON_NVCC_FLAGS of torch.utils.cpp_extension), less the four that take
# away the operators of half types.
NVCC_FLAGS = ["--expt-relaxed-constexpr", "--expt-extended-lambda"]

# Where Debian's packages have the headers of libstdc++, below `usr/include`, in the order of the search.
LIBSTDCXX_INCLUDES = ["c++/12", "{cpu}-linux-gnu/c++/12", "c++/12/backward"]

# The first part of the names of zig's headers of Linux for a CPU, which are those of all its kinds: `{kernel}` below.
KERNEL_CPUS = {"aarch64": "aarch64", "x86_64": "x86"}

# Where Debian's packages of gcc have its programs, headers and libraries: for the CPU that it runs on, and for another one.
GCC_DIRECTORY = "usr/lib/gcc/{cpu}-linux-gnu/12"
GCC_CROSS_DIRECTORY = "usr/lib/gcc-cross/{cpu}-linux-gnu/12"

# zig's headers of glibc and Linux, below `lib/libc/include`, in the order of the search. Headers for the machine have had
# two names in zig: of a place with several, the first that is there counts.
LIBC_INCLUDES = [
    ["{cpu}-linux-gnu", "{kernel}-linux-gnu"],
    ["generic-glibc"],
    ["{kernel}-linux-any", "{cpu}-linux-any"],
    ["any-linux-any"],
]

# Where torch's wheel has its headers, below `torch`, in the order of the search.
TORCH_INCLUDES = ["include", "include/torch/csrc/api/include"]

# Where CUDA's headers are, in the order of nvcc's search: in the second one from CUDA 13 on, where its profile says so.
CUDA_INCLUDES = ["include", "include/cccl"]

# What tvm-ffi's headers are read with: registration.h's name for the id, by the one that upstream defines in such a project.
TVM_FFI_DEFINES = ["TVM_FFI_EXTENSION_NAME=TORCH_EXTENSION_NAME"]

# The directories of CUTLASS: the library, and the utilities for the host side, which kernels use for packed strides and the
# like.
CUTLASS_INCLUDES = ["include", "tools/util/include"]

# The flags of C and C++ that Python's own CFLAGS bring into every build of setuptools (`sysconfig.get_config_var("CFLAGS")`),
# and that change what sources mean: signed integers and pointers wrap around. `-fwrapv` up to Python 3.11, this one from 3.12
# on, which clang and gcc read as `-fwrapv -fwrapv-pointer`; it serves wheels for all of them.
SETUPTOOLS_FLAGS = ["-fno-strict-overflow"]
