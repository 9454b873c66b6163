"""The repository rule of the host C++ SDK: a static clang, headers and link stubs, from pinned archives.

The compiler is the clang inside zig: one static program that runs on any Linux. With it come glibc's headers and
stubs for every version. The C++ library is gcc's, since torch is built with it.
"""

load("//toolchains:fetch.bzl", "fetch", "reproducible", "run")
load(":flags.bzl", "INCLUDES", "cc_flags")
load(":stub.bzl", "versioned_stub")

_COMPILER_PARTS = [
    "zig",
    "lib/include",
    "lib/libc/include/x86-linux-gnu/",
    "lib/libc/include/x86_64-linux-gnu/",
    "lib/libc/include/generic-glibc/",
    "lib/libc/include/x86-linux-any/",
    "lib/libc/include/x86_64-linux-any/",
    "lib/libc/include/any-linux-any/",
]

# What zig needs besides to make the stubs of glibc, and to build programs written in Zig.
_ZIG_PARTS = [
    "lib/libc/glibc/",
    "lib/std/",
    "lib/compiler",
    "lib/compiler_rt",
    "lib/compiler_rt.zig",
    "lib/c.zig",
    "lib/ubsan_rt.zig",
]

_GLIBC = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libc_nonshared.a"]

# nvcc calls the host compiler by one path, so its flags stand in a script; it is the one use of /bin/sh in an action.
_LAUNCHER = """#!/bin/sh
sdk=${{0%/*}}
exec "$sdk/zig/zig" clang {flags} {includes} "$@"
"""

_BUILD = """load("@rules_torch_kernels//toolchains/cc:sdk.bzl", "cc_sdk")

package(default_visibility = ["//visibility:public"])

exports_files(["zig/zig"])

cc_sdk(
    name = "sdk",
    clang = {clang},
    compiler = "zig/zig",
    compiler_files = ["gcc/include", "zig/lib/include", "zig/lib/libc/include"],
    glibc = {glibc},
    includes = {includes},
    launcher = "clang++",
    link_inputs = {link_inputs},
    zig_files = glob(["zig/lib/**"], exclude = ["zig/lib/include/**", "zig/lib/libc/**"]),
)
"""

# libstdc++, its headers and its archive alike, asks `__libc_single_threaded` whether it may do without atomic
# operations. glibc has that since 2.32. Each library gets one of its own that says no.
_SINGLE_THREADED = """.section .rodata.__libc_single_threaded,"a",@progbits
.globl __libc_single_threaded
.hidden __libc_single_threaded
.type __libc_single_threaded, @object
.size __libc_single_threaded, 1
__libc_single_threaded: .byte 0
.section .note.GNU-stack,"",@progbits
"""

# clang reads SOURCE_DATE_EPOCH, which actions.bzl sets, since version 16. An older one is told what it would make of it.
_EPOCH = [
    "-Wno-builtin-macro-redefined",
    "'-D__DATE__=\"Jan  1 1970\"'",
    "'-D__TIME__=\"00:00:00\"'",
    "'-D__TIMESTAMP__=\"Thu Jan  1 00:00:00 1970\"'",
]

_HOST_BUILD = """load("@rules_torch_kernels//toolchains/cc:sdk.bzl", "cc_host")

package(default_visibility = ["//visibility:public"])

cc_host(
    name = "sdk",
    clang = {clang},
    compiler = "zig/zig",
    compiler_files = ["gcc/include", "zig/lib/include", "zig/lib/libc/include"],
    glibc = {glibc},
    includes = {includes},
    launcher = "clang++",
)
"""

def _compiler(rctx, zig, gcc, glibc, more_parts = []):
    """Puts the compiler, its headers and the launcher for nvcc together.

    Args:
        rctx: repository_ctx.
        zig: dict, the lock's entry of zig.
        gcc: list of dict, the lock's entries with libstdc++; they are left in work/gcc without their headers.
        glibc: string, the version of glibc.
        more_parts: list of string, what is wanted of zig besides the compiler.

    Returns:
        list of string, the system include directories.
    """
    parts = ["ziglang/" + part for part in _COMPILER_PARTS + more_parts]
    fetch(rctx, zig, "zig", strip_prefix = "ziglang", include = parts)
    for entry in gcc:
        fetch(rctx, entry, "work/gcc")
    run(rctx, ["mkdir", "-p", "lib", "gcc"], "Making directories")
    run(rctx, ["mv", "work/gcc/usr/include", "gcc/include"], "Keeping the headers of libstdc++")
    directories = [[name for name in names if rctx.path(name).exists][0] for names in INCLUDES]
    dates = _EPOCH if zig["clang"] < 16 else []
    rctx.file("clang++", _LAUNCHER.format(
        flags = " ".join(cc_flags(zig["clang"], glibc) + dates),
        includes = " ".join(["-isystem \"$sdk/%s\"" % directory for directory in directories]),
    ))
    return directories

def _glibc_stubs(rctx, zig, version):
    """Has zig write its glibc stubs, which it does when it links any library, and keeps those."""
    rctx.file("work/empty.c", "")
    run(
        rctx,
        [zig, "build-lib", "-dynamic", "-OReleaseSmall", "-fno-compiler-rt", "-fno-ubsan-rt"] +
        ["-target", "x86_64-linux-gnu." + version, "-lc", "-lm", "-lpthread", "-femit-bin=work/empty.so"] +
        ["--cache-dir", "work/cache", "--global-cache-dir", "work/cache", "work/empty.c"],
        "Making stubs for glibc " + version,
    )
    for directory in rctx.path("work/cache/o").readdir():
        for file in directory.readdir():
            if file.basename in _GLIBC:
                run(rctx, ["cp", file, rctx.path("lib/" + file.basename)], "Keeping " + file.basename)

def _cc_sdk_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    zig_entry = lock["zig"][lock["default"]]
    directories = _compiler(rctx, zig_entry, lock["gcc"], lock["glibc"], _ZIG_PARTS)
    zig = rctx.path("zig/zig")
    gcc = "work/gcc/usr/lib/gcc/x86_64-linux-gnu/12/"
    kept = ["crtbeginS.o", "crtendS.o", "libgcc.a", "libstdc++.a"]
    run(rctx, ["mv"] + [gcc + name for name in kept] + ["lib"], "Keeping libstdc++.a")
    _glibc_stubs(rctx, zig, lock["glibc"])
    library = "work/gcc/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30"
    versioned_stub(rctx, zig, library, "lib/libstdc++.so.6", lock["floors"])
    versioned_stub(rctx, zig, "work/gcc/lib/x86_64-linux-gnu/libgcc_s.so.1", "lib/libgcc_s.so.1", lock["floors"])
    rctx.file("work/single_threaded.s", _SINGLE_THREADED)
    run(
        rctx,
        [zig, "clang", "--target=x86_64-linux-gnu", "-c", "work/single_threaded.s", "-o", "lib/single_threaded.o"],
        "Making what older glibc lacks",
    )
    rctx.delete("work")
    rctx.file("BUILD.bazel", _BUILD.format(
        clang = zig_entry["clang"],
        glibc = json.encode(lock["glibc"]),
        includes = json.encode(directories),
        link_inputs = json.encode(["lib/" + name for name in [
            "crtbeginS.o",
            "libstdc++.so.6",
            "libgcc_s.so.1",
            "libm.so.6",
            "libpthread.so.0",
            "libdl.so.2",
            "librt.so.1",
            "libc.so.6",
            "libc_nonshared.a",
            "single_threaded.o",
            "libstdc++.a",
            "libgcc.a",
            "crtendS.o",
        ]]),
    ))
    return reproducible(rctx)

def _without_shortcut(rctx):
    """Takes a shortcut out of `std::map::emplace` where nvcc reads it: cudafe++ 11.8 writes `remove_reference_t<_Args>` for it.

    Without it `emplace` makes the node before it looks for the key, as in C++14. CUDA 11.8 is for gcc 11 at most, whose
    headers have none.
    """
    name = "gcc/include/c++/12/bits/stl_map.h"
    text = rctx.read(name)
    shortcut = "\n\t  if constexpr (sizeof...(_Args) == 2)\n"
    condition = "#if __cplusplus >= 201703L"
    if text.count(condition + shortcut) != 1:
        fail("%s has no shortcut in emplace, or several" % name)
    rctx.file(name, text.replace(condition + shortcut, condition + " && !defined(__CUDACC__)" + shortcut), executable = False)

def _cc_host_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    zig = lock["zig"][rctx.attr.version]
    gcc = [entry for entry in lock["gcc"] if entry["name"].startswith("libstdc++-")]
    directories = _compiler(rctx, zig, gcc, lock["glibc"])
    if zig["clang"] < 14:
        _without_shortcut(rctx)
    rctx.delete("work")
    rctx.file("BUILD.bazel", _HOST_BUILD.format(
        clang = zig["clang"],
        glibc = json.encode(lock["glibc"]),
        includes = json.encode(directories),
    ))
    return reproducible(rctx)

cc_sdk_repository = repository_rule(
    implementation = _cc_sdk_repository_impl,
    attrs = {
        "lock": attr.string(mandatory = True, doc = "JSON: the object in toolchains/lock/cc.json."),
    },
    doc = "The host C++ SDK: clang, headers, link stubs.",
)

cc_host_repository = repository_rule(
    implementation = _cc_host_repository_impl,
    attrs = {
        "lock": attr.string(mandatory = True, doc = "JSON: the object in toolchains/lock/cc.json."),
        "version": attr.string(mandatory = True, doc = "The version of zig, e.g. `0.12.1`."),
    },
    doc = "Another clang with the same headers, for an nvcc that does not take the one of the C++ SDK, or for HIP.",
)
