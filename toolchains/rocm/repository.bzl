"""The repository rule of a ROCm SDK: HIP's headers, clang's headers for HIP, the device libraries, and link stubs."""

load("//toolchains:fetch.bzl", "fetch_parts", "reproducible")
load("//toolchains:packs.bzl", "pack_headers")
load("//toolchains/cc:stub.bzl", "soname_stubs", "symbol_stubs")

# Include directories: clang's wrappers stand before the C++ library that they wrap.
_ROOTS = ["clang/include/cuda_wrappers", "clang/include", "include"]

_BUILD = """load("@rules_torch_kernels//toolchains/rocm:sdk.bzl", "rocm_sdk")

package(default_visibility = ["//visibility:public"])

rocm_sdk(
    name = "sdk",
    bitcode = glob(["bitcode/*.bc"]),
    clang_headers = ["clang/include"],
    headers = ["include"],
    hipify = "{hipify}",
    host = "{host}",
    libraries = {libraries},
    pack = "{pack}",
    runtime = "lib/{runtime}",
    symbols = {symbols},
    system = "{system}",
    version = "{version}",
)
"""

def _rocm_sdk_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    fetch_parts(rctx, lock["archives"])
    runtime = lock["runtime"]
    soname_stubs(rctx, rctx.attr.zig, [runtime])
    libraries = symbol_stubs(rctx, rctx.attr.zig, rctx.attr.symbols, runtime)
    rctx.file("BUILD.bazel", _BUILD.format(
        hipify = rctx.attr.hipify,
        host = rctx.attr.host,
        libraries = json.encode(libraries),
        pack = pack_headers(rctx, ["clang/include", "include"], _ROOTS),
        runtime = runtime,
        symbols = "\"symbols\"" if rctx.attr.symbols else None,
        system = rctx.attr.system,
        version = rctx.attr.version,
    ))
    return reproducible(rctx)

rocm_sdk_repository = repository_rule(
    implementation = _rocm_sdk_repository_impl,
    attrs = {
        "hipify": attr.string(mandatory = True, doc = "Label of hipify, as written in the repository's BUILD file."),
        "host": attr.string(mandatory = True, doc = "Label of the compiler, as written in the repository's BUILD file."),
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/rocm.json."),
        "symbols": attr.label(doc = "The table of the libraries' symbols, if there is one: toolchains/lock/*.symbols."),
        "system": attr.string(mandatory = True, doc = "Label of the C++ SDK, as written in the repository's BUILD file."),
        "version": attr.string(mandatory = True, doc = "E.g. `7.2`."),
        "zig": attr.label(mandatory = True, doc = "The program that makes the stubs."),
    },
    doc = "A ROCm SDK: headers, device libraries, and stubs of its libraries.",
)
