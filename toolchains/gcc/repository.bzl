"""The repository rule of gcc: its C++ compiler and headers from Debian's packages, and link stubs of what its code calls."""

load("//toolchains:fetch.bzl", "fetch", "reproducible")
load("//toolchains/cc:stub.bzl", "versioned_stub")

_BUILD = """load("@rules_torch_kernels//toolchains/gcc:sdk.bzl", "gcc_sdk")

package(default_visibility = ["//visibility:public"])

gcc_sdk(
    name = "sdk",
    compiler = "{directory}/cc1plus",
    glibc = {glibc},
    headers = ["{directory}/include"],
    libraries = glob(["lib/**", "usr/lib/x86_64-linux-gnu/**"]),
    loader = "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    math = "stubs/libmvec.so.1",
    openmp = {openmp},
    openmp_oldest = {oldest},
)
"""

_DIRECTORY = "usr/lib/gcc/x86_64-linux-gnu/12"

# Of the packages, what running the compiler takes, and the headers that go with it.
_PARTS = [_DIRECTORY + "/cc1plus", _DIRECTORY + "/include/", "lib/x86_64-linux-gnu/", "usr/lib/x86_64-linux-gnu/"]
_UNUSED = ["/(audit|gconv)/"]

def _gcc_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    for entry in lock["packages"]:
        fetch(rctx, entry, ".", include = _PARTS, exclude = _UNUSED)
    openmp = {}
    for version, one in json.decode(rctx.attr.openmp).items():
        newest = one["newest"]
        stub = "stubs/%s/libgomp.so.1" % "_".join(["%s-%s" % pair for pair in newest.items()])
        if stub not in openmp:
            versioned_stub(rctx, rctx.attr.zig, "usr/lib/x86_64-linux-gnu/libgomp.so.1", stub, newest)
        openmp.setdefault(stub, []).append(version)
    versioned_stub(rctx, rctx.attr.zig, "lib/x86_64-linux-gnu/libmvec.so.1", "stubs/libmvec.so.1", {"GLIBC": rctx.attr.glibc})
    rctx.delete("work")
    rctx.file("BUILD.bazel", _BUILD.format(
        directory = _DIRECTORY,
        glibc = json.encode(rctx.attr.glibc),
        oldest = json.encode(sorted(openmp)[0]),
        openmp = json.encode({stub: " ".join(versions) for stub, versions in openmp.items()}),
    ))
    return reproducible(rctx)

gcc_repository = repository_rule(
    implementation = _gcc_repository_impl,
    attrs = {
        "glibc": attr.string(mandatory = True, doc = "The version of glibc whose headers are used, e.g. `2.28`."),
        "lock": attr.string(mandatory = True, doc = "JSON: the object in toolchains/lock/gcc.json."),
        "openmp": attr.string(mandatory = True, doc = "JSON: the object in toolchains/lock/torch_openmp.json."),
        "zig": attr.label(mandatory = True, doc = "The program that makes stubs."),
    },
    doc = "gcc's C++ compiler, for what asks for OpenMP.",
)
