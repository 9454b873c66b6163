"""The repository rule of a CUDA SDK: nvcc and headers, from NVIDIA's wheels."""

load("//toolchains:fetch.bzl", "fetch", "reproducible")
load("//toolchains/cc:stub.bzl", "soname_stubs")

_BUILD = """load("@rules_torch_kernels//toolchains/cuda:sdk.bzl", "cuda_sdk")

package(default_visibility = ["//visibility:public"])

cuda_sdk(
    name = "sdk",
    compiler_files = glob(["bin/**", "nvvm/**"], exclude = ["bin/nvcc"]),
    headers = glob(["include/**"]),
    include_marker = "include/.include_marker",
    nvcc = "bin/nvcc",
    runtime = "lib/{runtime}",
    version = "{version}",
)
"""

def _cuda_sdk_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    for entry in lock["archives"]:
        fetch(rctx, entry, ".", strip_prefix = lock["prefix"], include = [
            lock["prefix"] + "/" + part
            for part in ["bin/", "nvvm/", "include/"]
        ])
    rctx.file("include/.include_marker", "")
    runtime = lock["runtime_soname"]
    soname_stubs(rctx, rctx.attr.zig, [runtime])
    rctx.file("BUILD.bazel", _BUILD.format(runtime = runtime, version = rctx.attr.version))
    return reproducible(rctx)

cuda_sdk_repository = repository_rule(
    implementation = _cuda_sdk_repository_impl,
    attrs = {
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/cuda.json."),
        "version": attr.string(mandatory = True, doc = "E.g. `13.0`."),
        "zig": attr.label(mandatory = True, doc = "The program that makes the stubs."),
    },
    doc = "A CUDA SDK: nvcc, its headers, and a stub of the CUDA runtime.",
)
