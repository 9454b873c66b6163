"""The repository rule of the host C++ SDK: a static clang, headers and link stubs, from pinned archives.

The compiler is the clang inside zig: a static program that runs on any Linux. zig also provides glibc's headers and
stubs for every version. The C++ library is gcc's, since torch is built with it.
"""

load("//toolchains:fetch.bzl", "fetch", "reproducible", "run")
load("//toolchains:packs.bzl", "pack_headers")
load(":flags.bzl", "CLANG_INCLUDE", "CPU", "MACHINES", "cc_flags", "cc_includes", "libc_includes", "loader", "triple")
load(":stub.bzl", "versioned_stub")

_COMPILER_PARTS = ["zig", "lib/include"]

# The files that zig also needs to make the stubs of glibc, and to build programs written in Zig.
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

# zig's name of the dynamic loader, which has the function behind `thread_local`.
_ZIG_LOADER = "libld.so.2"

# nvcc calls the host compiler by a path alone, so a script adds its flags; it is the only use of /bin/sh in an action.
_LAUNCHER = """#!/bin/sh
sdk=${{0%/*}}
exec "$sdk/zig/zig" clang {flags} {includes} "$@"
"""

_BUILD = """load("@rules_torch_kernels//toolchains/cc:sdk.bzl", "{rule}")

package(default_visibility = ["//visibility:public"])

exports_files(["zig/zig"])

{rule}(
    name = "sdk",
    clang = {clang},
    compiler = "zig/zig",
    compiler_files = {headers},
    cpu = "{cpu}",
    glibc = "{glibc}",
    includes = {includes},
    launcher = "clang++",
    pack = "{pack}",
{more})
"""

_SDK = """    link_inputs = {link_inputs},
    zig_files = glob(["zig/lib/**"], exclude = ["zig/lib/include/**", "zig/lib/libc/**"], allow_empty = True),
"""

# libstdc++, both its headers and its archive, reads `__libc_single_threaded` to avoid atomic operations. glibc has it
# since 2.32. Each extension gets its own copy, which is 0.
_SINGLE_THREADED = """.section .rodata.__libc_single_threaded,"a",@progbits
.globl __libc_single_threaded
.hidden __libc_single_threaded
.type __libc_single_threaded, @object
.size __libc_single_threaded, 1
__libc_single_threaded: .byte 0
.section .note.GNU-stack,"",@progbits
"""

# clang reads SOURCE_DATE_EPOCH, which actions.bzl sets, since version 16. For an older clang, these macros have the
# resulting values.
_EPOCH = [
    "-Wno-builtin-macro-redefined",
    "'-D__DATE__=\"Jan  1 1970\"'",
    "'-D__TIME__=\"00:00:00\"'",
    "'-D__TIMESTAMP__=\"Thu Jan  1 00:00:00 1970\"'",
]

# The headers of libstdc++, of clang, and of glibc and Linux.
_HEADERS = ["gcc/include", CLANG_INCLUDE, "zig/lib/libc/include"]

def _libcs(cpus):
    """The files of zig for compiling for CPUs: the headers of their C library."""
    return ["lib/libc/include/%s/" % name for cpu in cpus for place in libc_includes(cpu) for name in place]

def _opaque_type_names(rctx):
    """Hides the names of types from compilers, so that no code depends on the text or the length of a name.

    The link adds a character in front of the names of an extension's own types (rules/private/tools/link/object.zig).
    """
    name = "gcc/include/c++/12/typeinfo"
    text = rctx.read(name)
    member = "\n    const char *__name;\n"
    if text.count(member) != 1:
        fail("%s has no member __name, or several" % name)
    rctx.file(name, text.replace(member, "\n    const char *volatile __name;\n"), executable = False)

def _headers(rctx, gcc, cpu):
    """Adds the headers of libstdc++ to zig's.

    Args:
        rctx: repository_ctx.
        gcc: list of dict, the lock's entries with libstdc++; they are left in work/gcc without their headers.
        cpu: string, the CPU that they are for.

    Returns:
        list of string, the system include directories.
    """
    for entry in gcc:
        fetch(rctx, entry, "work/gcc")
    run(rctx, ["mkdir", "-p", "lib", "gcc"], "Making directories")
    run(rctx, ["mv", "work/gcc/usr/include", "gcc/include"], "Keeping the headers of libstdc++")
    _opaque_type_names(rctx)
    return [[name for name in names if rctx.path(name).exists][0] for names in cc_includes(cpu)]

def _compiler(rctx, zig, gcc, glibc, cpu, more_parts = []):
    """Assembles the compiler, its headers and the launcher for nvcc.

    Args:
        rctx: repository_ctx.
        zig: dict, the lock's entry of zig.
        gcc: list of dict, the lock's entries with libstdc++; they are left in work/gcc without their headers.
        glibc: string, the version of glibc.
        cpu: string, the CPU to compile for.
        more_parts: list of string, further files of zig.

    Returns:
        list of string, the system include directories.
    """
    parts = ["ziglang/" + part for part in _COMPILER_PARTS + _libcs([cpu]) + more_parts]
    fetch(rctx, zig, "zig", strip_prefix = "ziglang", include = parts)
    directories = _headers(rctx, gcc, cpu)
    _launcher(rctx, zig["clang"], glibc, directories, cpu)
    return directories

def _launcher(rctx, clang, glibc, directories, cpu):
    """Writes the script that nvcc calls as the host compiler.

    Args:
        rctx: repository_ctx.
        clang: int, the major version of the compiler.
        glibc: string, the version of glibc.
        directories: list of string, the system include directories.
        cpu: string, the CPU to compile for.
    """
    dates = _EPOCH if clang < 16 else []
    rctx.file("clang++", _LAUNCHER.format(
        flags = " ".join(cc_flags(clang, glibc, cpu) + dates),
        includes = " ".join(["-isystem \"$sdk/%s\"" % directory for directory in directories]),
    ))

def _glibc_stubs(rctx, zig, version, cpu):
    """Has zig write its glibc stubs, a side effect of linking any library, and keeps them."""
    rctx.file("work/empty.c", "")
    run(
        rctx,
        [zig, "build-lib", "-dynamic", "-OReleaseSmall", "-fno-compiler-rt", "-fno-ubsan-rt"] +
        ["-target", triple(cpu) + "." + version, "-lc", "-lm", "-lpthread", "-femit-bin=work/empty.so"] +
        ["--cache-dir", "work/cache", "--global-cache-dir", "work/cache", "work/empty.c"],
        "Making stubs for glibc " + version,
    )
    for directory in rctx.path("work/cache/o").readdir():
        for file in directory.readdir():
            name = _loader_name(cpu) if file.basename == _ZIG_LOADER else file.basename
            if name in _GLIBC + [_loader_name(cpu)]:
                run(rctx, ["cp", file, rctx.path("lib/" + name)], "Keeping " + name)

def _loader_name(cpu):
    """The file name of the dynamic loader for a CPU."""
    return loader(cpu).rpartition("/")[2]

def _link_inputs(rctx, zig, lock, cpu):
    """Makes the inputs that follow the objects in a link, from the files that `_headers` left.

    Args:
        rctx: repository_ctx.
        zig: path of zig.
        lock: dict, the object in toolchains/lock/cc.json.
        cpu: string, the CPU to link for.

    Returns:
        list of string, the files, in this order.
    """
    gcc = "work/gcc/usr/lib/gcc/%s/12/" % triple(cpu)
    kept = ["crtbeginS.o", "crtendS.o", "libgcc.a", "libstdc++.a"]
    run(rctx, ["mv"] + [gcc + name for name in kept] + ["lib"], "Keeping libstdc++.a")
    _glibc_stubs(rctx, zig, lock["glibc"], cpu)
    library = "work/gcc/usr/lib/%s/libstdc++.so.6.0.30" % triple(cpu)
    versioned_stub(rctx, zig, library, "lib/libstdc++.so.6", lock["max_symbol_versions"], cpu)
    library = "work/gcc/lib/%s/libgcc_s.so.1" % triple(cpu)
    versioned_stub(rctx, zig, library, "lib/libgcc_s.so.1", lock["max_symbol_versions"], cpu)
    rctx.file("work/single_threaded.s", _SINGLE_THREADED)
    run(
        rctx,
        [zig, "clang", "--target=" + triple(cpu), "-c", "work/single_threaded.s", "-o", "lib/single_threaded.o"],
        "Compiling __libc_single_threaded for an older glibc",
    )
    rctx.delete("work")
    return ["lib/" + name for name in [
        "crtbeginS.o",
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libm.so.6",
        "libpthread.so.0",
        "libdl.so.2",
        "librt.so.1",
        "libc.so.6",
        # After the C library: the loader of glibc 2.28 has a `malloc` too.
        _loader_name(cpu),
        "libc_nonshared.a",
        "single_threaded.o",
        "libstdc++.a",
        "libgcc.a",
        "crtendS.o",
    ]]

def _gcc(lock, cpu):
    """The lock's entries with libstdc++ for a CPU.

    Args:
        lock: dict, the object in toolchains/lock/cc.json.
        cpu: string.

    Returns:
        list of dict.
    """
    return lock["gcc"] if cpu == CPU else lock["cross"][cpu]

def _write_build(rctx, rule, clang, glibc, directories, cpu, more = ""):
    """Writes the BUILD file.

    Args:
        rctx: repository_ctx.
        rule: string, of sdk.bzl.
        clang: int, the major version of the compiler.
        glibc: string, the version of glibc.
        directories: list of string, the system include directories.
        cpu: string, the CPU to compile for.
        more: string, the attributes that only `cc_sdk` has.
    """
    rctx.file("BUILD.bazel", _BUILD.format(
        clang = clang,
        cpu = cpu,
        glibc = glibc,
        headers = json.encode(_HEADERS),
        includes = json.encode(directories),
        more = more,
        pack = pack_headers(rctx, _HEADERS, directories),
        rule = rule,
    ))

def _cc_sdk_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    zig = lock["zig"][lock["default"]]
    cpu = rctx.attr.cpu
    others = [other for other in MACHINES if other != cpu]
    directories = _compiler(rctx, zig, _gcc(lock, cpu), lock["glibc"], cpu, _ZIG_PARTS + _libcs(others))
    link_inputs = _link_inputs(rctx, rctx.path(rctx.attr.maker or "zig/zig"), lock, cpu)
    more = _SDK.format(link_inputs = json.encode(link_inputs))
    _write_build(rctx, "cc_sdk", zig["clang"], lock["glibc"], directories, cpu, more)
    return reproducible(rctx)

def _cc_cross_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    cpu = rctx.attr.cpu
    zig = rctx.path(rctx.attr.zig)
    run(rctx, ["mkdir", "-p", "zig/lib/libc/include"], "Making directories")

    # The launcher expects the compiler beside itself: a hard link, if the file system supports it.
    if rctx.execute(["ln", zig, "zig/zig"]).return_code:
        run(rctx, ["cp", zig, "zig/zig"], "Copying zig")
    for part in [CLANG_INCLUDE] + ["zig/" + part.removesuffix("/") for part in _libcs([cpu])]:
        there = zig.dirname.get_child(part.removeprefix("zig/"))
        if there.exists:
            run(rctx, ["cp", "-R", there, part], "Copying " + part)
    directories = _headers(rctx, _gcc(lock, cpu), cpu)
    clang = lock["zig"][lock["default"]]["clang"]
    _launcher(rctx, clang, lock["glibc"], directories, cpu)
    more = _SDK.format(link_inputs = json.encode(_link_inputs(rctx, rctx.path(rctx.attr.maker), lock, cpu)))
    _write_build(rctx, "cc_sdk", clang, lock["glibc"], directories, cpu, more)
    return reproducible(rctx)

def _without_shortcut(rctx):
    """Hides a shortcut in `std::map::emplace` from nvcc: cudafe++ 11.8 turns it into `remove_reference_t<_Args>`.

    Without the shortcut, `emplace` makes the node before it looks for the key, as in C++14. CUDA 11.8 supports gcc up
    to 11, whose headers have no such shortcut.
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
    directories = _compiler(rctx, zig, gcc, lock["glibc"], CPU)
    if zig["clang"] < 14:
        _without_shortcut(rctx)
    rctx.delete("work")
    _write_build(rctx, "cc_host", zig["clang"], lock["glibc"], directories, CPU)
    return reproducible(rctx)

cc_sdk_repository = repository_rule(
    implementation = _cc_sdk_repository_impl,
    attrs = {
        "cpu": attr.string(mandatory = True, doc = "The CPU that the compiler runs on, and that the code is for."),
        "lock": attr.string(mandatory = True, doc = "JSON: the object in toolchains/lock/cc.json, with the releases of zig that run on the CPU."),
        "maker": attr.label(doc = "The program that makes stubs, if this compiler does not run on the build machine."),
    },
    doc = "The host C++ SDK: clang, headers, link stubs.",
)

cc_cross_repository = repository_rule(
    implementation = _cc_cross_repository_impl,
    attrs = {
        "cpu": attr.string(mandatory = True, doc = "The CPU that the code is for, e.g. `aarch64`."),
        "lock": attr.string(mandatory = True, doc = "JSON: the object in toolchains/lock/cc.json."),
        "maker": attr.label(mandatory = True, doc = "The program that makes stubs."),
        "zig": attr.label(mandatory = True, doc = "The compiler of the C++ SDK, with headers and stubs for the CPU beside it."),
    },
    doc = "Headers and link stubs to compile with the C++ SDK's compiler for another CPU.",
)

cc_host_repository = repository_rule(
    implementation = _cc_host_repository_impl,
    attrs = {
        "lock": attr.string(mandatory = True, doc = "JSON: the object in toolchains/lock/cc.json."),
        "version": attr.string(mandatory = True, doc = "The version of zig, e.g. `0.12.1`."),
    },
    doc = "Another clang with the same headers, for HIP, or for an nvcc that does not accept the C++ SDK's clang.",
)
