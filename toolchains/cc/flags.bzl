"""How the host compiler is called: the same for our own compile actions and for nvcc's host steps."""

# No header and no library of the host's is found, since none of the default directories is searched.
_FLAGS = [
    "--driver-mode=g++",
    "--target=x86_64-linux-gnu",
    "-nostdinc",
    "-nostdinc++",
]

# The last clang that mangles templates as gcc does, with which torch is built.
_GCC_MANGLING = 17

def cc_flags(clang, glibc):
    """The flags of every compile.

    Args:
        clang: int, the major version of the compiler.
        glibc: string, the version whose headers are used, e.g. `2.28`.

    Returns:
        list of string.
    """
    mangling = ["-fclang-abi-compat=%d" % _GCC_MANGLING] if clang > _GCC_MANGLING else []
    return _FLAGS + mangling + ["-D__GLIBC_MINOR__=" + glibc.split(".")[1]]

CLANG_INCLUDE = "zig/lib/include"

# System include directories in their order, relative to the SDK: libstdc++, then clang's own, then glibc and Linux.
# Headers for the machine have had two names in zig: of a place with several, the first that is there.
INCLUDES = [
    ["gcc/include/c++/12"],
    ["gcc/include/x86_64-linux-gnu/c++/12"],
    ["gcc/include/c++/12/backward"],
    [CLANG_INCLUDE],
    ["zig/lib/libc/include/x86_64-linux-gnu", "zig/lib/libc/include/x86-linux-gnu"],
    ["zig/lib/libc/include/generic-glibc"],
    ["zig/lib/libc/include/x86-linux-any", "zig/lib/libc/include/x86_64-linux-any"],
    ["zig/lib/libc/include/any-linux-any"],
]
