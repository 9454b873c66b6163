"""The repository rule of a slim torch SDK: headers out of the wheel, and link stubs instead of its libraries."""

load("//toolchains:fetch.bzl", "fetch", "reproducible")
load("//toolchains/cc:stub.bzl", "soname_stubs")

_CPU_LIBRARIES = ["libtorch.so", "libtorch_cpu.so", "libc10.so"]
_CUDA_LIBRARIES = ["libtorch_cuda.so", "libc10_cuda.so"]

_BUILD = """load("@rules_torch_kernels//toolchains/torch:sdk.bzl", "torch_sdk")

package(default_visibility = ["//visibility:public"])

torch_sdk(
    name = "sdk",
    cpu_libraries = {cpu},
    cuda_libraries = {cuda},
    cxx_abis = {abis},
    cxx_standard = {standard},
    headers = ["include"],
    includes = ["include", "include/torch/csrc/api/include"],
    version = "{version}",
    wheel = "{wheel}",
)
"""

def _torch_sdk_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    fetch(rctx, lock["archive"], ".", strip_prefix = "torch")
    soname_stubs(rctx, rctx.attr.zig, _CPU_LIBRARIES + _CUDA_LIBRARIES)
    rctx.file("BUILD.bazel", _BUILD.format(
        abis = json.encode(lock["abis"]),
        cpu = json.encode(["lib/" + name for name in _CPU_LIBRARIES]),
        cuda = json.encode(["lib/" + name for name in _CUDA_LIBRARIES]),
        standard = lock["cxx_standard"],
        version = rctx.attr.version,
        wheel = lock["archive"]["sha256"],
    ))
    return reproducible(rctx)

torch_sdk_repository = repository_rule(
    implementation = _torch_sdk_repository_impl,
    attrs = {
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/torch.json."),
        "version": attr.string(mandatory = True, doc = "E.g. `2.13`."),
        "zig": attr.label(mandatory = True, doc = "The program that makes the stubs."),
    },
    doc = "A slim torch SDK.",
)
