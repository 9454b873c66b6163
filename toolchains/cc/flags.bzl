"""How the host compiler is called: the same for our own compile actions and for nvcc's host steps."""

# clang from 18 on mangles some templates otherwise than gcc, with which torch is built: ask for the older way.
# No header and no library of the host's is found, since none of the default directories is searched.
FLAGS = [
    "--driver-mode=g++",
    "--target=x86_64-linux-gnu",
    "-fclang-abi-compat=17",
    "-nostdinc",
    "-nostdinc++",
]

def glibc_defines(version):
    """Definitions that make the headers those of one glibc.

    Args:
        version: string, e.g. `2.28`.

    Returns:
        list of string, compiler flags.
    """
    return ["-D__GLIBC_MINOR__=" + version.split(".")[1]]

# System include directories in their order, relative to the SDK: libstdc++, then clang's own, then glibc and Linux.
INCLUDES = [
    "gcc/include/c++/12",
    "gcc/include/x86_64-linux-gnu/c++/12",
    "gcc/include/c++/12/backward",
    "zig/lib/include",
    "zig/lib/libc/include/x86_64-linux-gnu",
    "zig/lib/libc/include/generic-glibc",
    "zig/lib/libc/include/x86-linux-any",
    "zig/lib/libc/include/any-linux-any",
]
