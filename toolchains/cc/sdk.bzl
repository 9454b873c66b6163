"""The rules that describe host C++ compilers to the rules."""

load("//toolchains:includes.bzl", "include_paths")
load(":flags.bzl", "cc_flags")

CcSdkInfo = provider(
    doc = "A hermetic host C++ compiler and linker.",
    fields = {
        "compiler": "File; static program: `clang ARGUMENT...` compiles, `ld.lld ARGUMENT...` links",
        "files": "depset of File; what a compile needs besides",
        "flags": "list of string; flags of every compile",
        "includes": "list of string; system include directories from the execution root, in the order of the search",
        "link_inputs": "list of File; what follows the objects in a link, in this order",
        "zig_files": "depset of File; what building a program written in Zig needs besides the compiler",
    },
)

CudaHostInfo = provider(
    doc = "A host C++ compiler as nvcc calls it.",
    fields = {
        "clang": "int; the major version of clang",
        "compiler": "File; the static program that the launcher starts",
        "files": "depset of File; headers",
        "launcher": "File; `clang++`",
    },
)

def _host(ctx):
    return CudaHostInfo(
        clang = ctx.attr.clang,
        compiler = ctx.file.compiler,
        files = depset(ctx.files.compiler_files),
        launcher = ctx.file.launcher,
    )

def _cc_sdk_impl(ctx):
    return [_host(ctx), platform_common.ToolchainInfo(sdk = CcSdkInfo(
        compiler = ctx.file.compiler,
        files = depset(ctx.files.compiler_files),
        flags = cc_flags(ctx.attr.clang, ctx.attr.glibc),
        includes = include_paths(ctx, ctx.attr.includes),
        link_inputs = ctx.files.link_inputs,
        zig_files = depset(ctx.files.zig_files),
    ))]

_HOST_ATTRS = {
    "clang": attr.int(mandatory = True, doc = "The major version of clang, e.g. 19."),
    "compiler": attr.label(allow_single_file = True, mandatory = True, doc = "The static program."),
    "compiler_files": attr.label_list(allow_files = True, mandatory = True, doc = "Headers: files, or directories of them."),
    "launcher": attr.label(allow_single_file = True, mandatory = True, doc = "The script for nvcc."),
}

cc_sdk = rule(
    implementation = _cc_sdk_impl,
    attrs = _HOST_ATTRS | {
        "glibc": attr.string(mandatory = True, doc = "Version of glibc to compile for, e.g. `2.28`."),
        "includes": attr.string_list(mandatory = True, doc = "System include directories, relative to the package."),
        "link_inputs": attr.label_list(allow_files = True, mandatory = True, doc = "Objects, stubs and archives."),
        "zig_files": attr.label_list(allow_files = True, mandatory = True, doc = "Zig's standard library."),
    },
    doc = "A hermetic host C++ SDK.",
)

def _cuda_host_impl(ctx):
    return [_host(ctx)]

cuda_host = rule(
    implementation = _cuda_host_impl,
    attrs = _HOST_ATTRS,
    doc = "A host C++ compiler for nvcc alone.",
)
