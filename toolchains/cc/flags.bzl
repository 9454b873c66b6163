"""How the host compiler is called: the same for our own compile actions and for nvcc's host steps."""

load("//rules/facts:compilers.bzl", "CLANG_FLAGS", "KERNEL_CPUS", "LIBC_INCLUDES", "LIBSTDCXX_INCLUDES")

# The CPU of variants that name none.
CPU = "x86_64"

# The CPUs of machines that run compilers, each with what Java calls it; what the lock pins for the others is in
# toolchains/lock/machines.json.
MACHINES = {"aarch64": ["aarch64", "arm64"], "x86_64": ["amd64", "x86_64"]}

# The last clang that mangles templates as gcc does, with which torch is built.
_GCC_MANGLING = 17

def machine(os):
    """The CPU of the machine that makes repositories.

    Args:
        os: repository_os, of a repository_ctx or module_ctx.

    Returns:
        string, a key of MACHINES.
    """
    for cpu, names in MACHINES.items():
        if os.arch in names:
            return cpu
    return fail("no compiler of ours runs on this machine, whose CPU is %s: build on one of %s" % (os.arch, ", ".join(MACHINES)))

def triple(cpu):
    """How compilers and Debian name the target.

    Args:
        cpu: string, `x86_64` or `aarch64`.

    Returns:
        string.
    """
    return cpu + "-linux-gnu"

def library_directories(cpu):
    """Where Debian's packages for a CPU have shared libraries, those of the C library first.

    Args:
        cpu: string, e.g. `x86_64`.

    Returns:
        list of string.
    """
    return ["lib/" + triple(cpu), "usr/lib/" + triple(cpu)]

_LOADERS = {"aarch64": "ld-linux-aarch64.so.1", "x86_64": "ld-linux-x86-64.so.2"}

def loader(cpu):
    """Where Debian's package of the C library for a CPU has the dynamic loader.

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
        cpu: string, that the code is for, e.g. `x86_64`.

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
        list of list of string, in the order of the search. Headers for the machine have had two names in zig: of a place
        with several, the first that is there counts.
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
