"""The repository rule of gcc: its compiler and headers from Debian's packages, and link stubs of its libraries."""

load("//rules/facts:compilers.bzl", "GCC_CROSS_DIRECTORY", "GCC_DIRECTORY")
load("//toolchains:fetch.bzl", "fetch", "reproducible")
load("//toolchains:packs.bzl", "pack_headers")
load("//toolchains/cc:flags.bzl", "CPU", "library_directories", "loader", "triple")
load("//toolchains/cc:stub.bzl", "versioned_stub")

_BUILD = """load("@rules_torch_kernels//toolchains/gcc:sdk.bzl", "gcc_sdk")
load("@rules_torch_kernels//toolchains/library:sdk.bzl", "library_sdk")

package(default_visibility = ["//visibility:public"])

gcc_sdk(
    name = "sdk",
    compiler = "{directory}/cc1plus",
    cpu = {cpu},
    glibc = {glibc},
    headers = ["{directory}/include"],
    libraries = glob(["lib/**", "{libraries}/**"]),
    library_directories = {directories},
    loader = {loader},
    math = {math},
    openmp = {openmp},
    openmp_header = ":header",
    openmp_oldest = {oldest},
)

library_sdk(
    name = "header",
    depends = "openmp",
    headers = ["openmp"],
    includes = ["openmp"],
    pack = "{pack}",
)
"""

# The CPUs with vectorised functions in glibc 2.28: aarch64 got them in 2.38.
_WITH_MATH = ["x86_64"]

def _places(cpu, machine):
    """The directories of the compiler, its headers and its libraries in Debian's packages, for a CPU and a machine."""
    if cpu == machine:
        libc, libraries = library_directories(cpu)
        directory = GCC_DIRECTORY.format(cpu = cpu)
    else:
        libc = "usr/%s/lib" % triple(cpu)
        libraries = libc
        directory = GCC_CROSS_DIRECTORY.format(cpu = cpu)
    return struct(
        directory = directory,
        math = libc + "/libmvec.so.1" if cpu in _WITH_MATH else None,
        openmp = libraries + "/libgomp.so.1",
    )

_UNUSED = ["/(audit|gconv)/"]

def _gcc_repository_impl(rctx):
    cpu = rctx.attr.cpu
    machine = rctx.attr.machine
    place = _places(cpu, machine)
    directories = library_directories(machine)
    parts = [place.directory + "/cc1plus", place.directory + "/include/", place.openmp] + [one + "/" for one in directories]
    if place.math:
        parts.append(place.math)

    # The path named after the SONAME is a link.
    parts.append(place.openmp.rpartition("/")[0] + "/libgomp.so.1.0.0")
    for entry in json.decode(rctx.attr.lock):
        fetch(rctx, entry, ".", include = parts, exclude = _UNUSED)
    openmp = {}
    for key, one in json.decode(rctx.attr.openmp).items():
        version, _, of = key.partition(" ")
        if (of or CPU) != cpu:
            continue
        newest = one["newest"]
        stub = "stubs/%s/libgomp.so.1" % "_".join(["%s-%s" % pair for pair in newest.items()])
        if stub not in openmp:
            versioned_stub(rctx, rctx.attr.zig, place.openmp, stub, newest, cpu)
        openmp.setdefault(stub, []).append(version)
    if place.math:
        versioned_stub(rctx, rctx.attr.zig, place.math, "stubs/libmvec.so.1", {"GLIBC": rctx.attr.glibc}, cpu)
    rctx.delete("work")

    # A copy in a directory of its own, for other compilers: gcc's own headers beside the original are for gcc alone.
    header = rctx.read(place.directory + "/include/omp.h").replace("__malloc__ (omp_free)", "__malloc__")
    rctx.file("openmp/omp.h", header, executable = False)
    rctx.file("BUILD.bazel", _BUILD.format(
        cpu = json.encode(cpu),
        directories = json.encode(directories),
        directory = place.directory,
        glibc = json.encode(rctx.attr.glibc),
        libraries = directories[1],
        loader = json.encode(loader(machine)),
        math = json.encode("stubs/libmvec.so.1") if place.math else None,
        oldest = json.encode(sorted(openmp)[0]),
        pack = pack_headers(rctx, ["openmp"], ["openmp"]),
        openmp = json.encode({stub: " ".join(versions) for stub, versions in openmp.items()}),
    ))
    return reproducible(rctx)

gcc_repository = repository_rule(
    implementation = _gcc_repository_impl,
    attrs = {
        "cpu": attr.string(mandatory = True, doc = "The CPU that it compiles for, e.g. `x86_64`."),
        "glibc": attr.string(mandatory = True, doc = "The version of glibc whose headers are used, e.g. `2.28`."),
        "lock": attr.string(mandatory = True, doc = "JSON: the list of packages in toolchains/lock/gcc.json."),
        "machine": attr.string(mandatory = True, doc = "The CPU that it runs on."),
        "openmp": attr.string(mandatory = True, doc = "JSON: the object in toolchains/lock/torch_openmp.json."),
        "zig": attr.label(mandatory = True, doc = "The program that makes stubs."),
    },
    doc = "gcc's C++ compiler, for sources that ask for OpenMP.",
)
