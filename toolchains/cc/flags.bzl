"""The flags of the host compiler, the same in the rules' own compile actions and in nvcc's calls."""

load("//rules/facts:compilers.bzl", "CLANG_FLAGS", "KERNEL_CPUS", "LIBC_INCLUDES", "LIBSTDCXX_INCLUDES")

# The CPU of variants that name no CPU.
CPU = "x86_64"

# The CPUs of machines that run compilers, each with its name in Java; toolchains/lock/machines.json pins the archives
# for CPUs other than the default one.
MACHINES = {"aarch64": ["aarch64", "arm64"], "x86_64": ["amd64", "x86_64"]}

# The last clang that mangles templates as gcc does, with which torch is built.
_GCC_MANGLING = 17

def machine(os):
    """The CPU of the build machine.

    Args:
        os: repository_os, of a repository_ctx or module_ctx.

    Returns:
        string, a key of MACHINES.
    """
    for cpu, names in MACHINES.items():
        if os.arch in names:
            return cpu
    return fail("no toolchain runs on this machine, whose CPU is %s: build on a machine with one of %s" % (os.arch, ", ".join(MACHINES)))

def triple(cpu):
    """The target's name for compilers and Debian.

    Args:
        cpu: string, `x86_64` or `aarch64`.

    Returns:
        string.
    """
    return cpu + "-linux-gnu"

def library_directories(cpu):
    """The directories of shared libraries in Debian's packages for a CPU, the C library's first.

    Args:
        cpu: string, e.g. `x86_64`.

    Returns:
        list of string.
    """
    return ["lib/" + triple(cpu), "usr/lib/" + triple(cpu)]

_LOADERS = {"aarch64": "ld-linux-aarch64.so.1", "x86_64": "ld-linux-x86-64.so.2"}

def loader(cpu):
    """The path of the dynamic loader in Debian's package of the C library for a CPU.

    Args:
        cpu: string, e.g. `x86_64`.

    Returns:
        string.
    """
    return library_directories(cpu)[0] + "/" + _LOADERS[cpu]

def cc_flags(clang, glibc, cpu):
    """The flags of every compile.

    Args:
        clang: int, the major version of the compiler.
        glibc: string, the version whose headers are used, e.g. `2.28`.
        cpu: string, the CPU that the code is for, e.g. `x86_64`.

    Returns:
        list of string.
    """
    mangling = ["-fclang-abi-compat=%d" % _GCC_MANGLING] if clang > _GCC_MANGLING else []
    return CLANG_FLAGS + ["--target=" + triple(cpu)] + mangling + ["-D__GLIBC_MINOR__=" + glibc.split(".")[1]]

CLANG_INCLUDE = "zig/lib/include"

def libc_includes(cpu):
    """The directories of zig's headers of glibc and Linux, relative to `lib/libc/include`.

    Args:
        cpu: string, e.g. `x86_64`.

    Returns:
        list of list of string, in the order of the search. The machine's headers have had two names in zig: where an
        entry lists several directories, the first that exists counts.
    """
    names = [[name.format(cpu = cpu, kernel = KERNEL_CPUS[cpu]) for name in place] for place in LIBC_INCLUDES]
    return [[name for i, name in enumerate(place) if name not in place[:i]] for place in names]

def cc_includes(cpu):
    """System include directories, relative to the SDK: libstdc++, then clang's own, then glibc and Linux.

    Args:
        cpu: string, e.g. `x86_64`.

    Returns:
        list of list of string, as `libc_includes`.
    """
    libraries = [["gcc/include/" + name.format(cpu = cpu)] for name in LIBSTDCXX_INCLUDES]
    return libraries + [[CLANG_INCLUDE]] + [["zig/lib/libc/include/" + name for name in place] for place in libc_includes(cpu)]
