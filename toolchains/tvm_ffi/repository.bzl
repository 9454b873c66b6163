"""The repository rule of tvm-ffi: the wheel's headers, and a link stub instead of its library."""

load("//rules/facts:compilers.bzl", "TVM_FFI_DEFINES")
load("//toolchains:fetch.bzl", "fetch", "reproducible")
load("//toolchains:packs.bzl", "pack_headers")
load("//toolchains/cc:stub.bzl", "symbol_stubs")

_BUILD = """load("@rules_torch_kernels//toolchains/library:sdk.bzl", "library_sdk")

package(default_visibility = ["//visibility:public"])

library_sdk(
    name = "sdk",
    defines = {defines},
    depends = "tvm_ffi",
    headers = ["include"],
    includes = ["include"],
    pack = "{pack}",
)

filegroup(
    name = "link",
    srcs = {stubs} + ["symbols"],
)
"""

def _tvm_ffi_repository_impl(rctx):
    lock = json.decode(rctx.attr.lock)
    fetch(rctx, lock["archive"], ".", strip_prefix = "tvm_ffi")
    stubs = symbol_stubs(rctx, rctx.attr.zig, rctx.attr.symbols, "")
    rctx.file("BUILD.bazel", _BUILD.format(
        defines = json.encode(TVM_FFI_DEFINES),
        pack = pack_headers(rctx, ["include"], ["include"]),
        stubs = json.encode(stubs),
    ))
    return reproducible(rctx)

tvm_ffi_repository = repository_rule(
    implementation = _tvm_ffi_repository_impl,
    attrs = {
        "lock": attr.string(mandatory = True, doc = "JSON: one entry of toolchains/lock/tvm_ffi.json."),
        "symbols": attr.label(mandatory = True, doc = "The table of the library's symbols."),
        "zig": attr.label(mandatory = True, doc = "The program that makes the stub."),
    },
    doc = "The headers of tvm-ffi, and a stub of its library.",
)
