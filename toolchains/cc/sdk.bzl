"""The rules that describe host C++ compilers to the rules."""

load("//toolchains:includes.bzl", "include_paths")
load(":flags.bzl", "CLANG_INCLUDE", "cc_flags")

_RUNTIME = "/zig/lib/compiler_rt.zig"

CcSdkInfo = provider(
    doc = "A hermetic host C++ compiler and linker.",
    fields = {
        "clang_include": "string; the directory of `includes` with clang's own headers",
        "compiler": "File; static program: `clang ARGUMENT...` compiles, `ld.lld ARGUMENT...` links",
        "cpu": "string; the CPU that it compiles for, e.g. `x86_64`",
        "flags": "list of string; flags of every compile",
        "headers": "depset of File; headers: files, or directories of them",
        "includes": "list of string; system include directories from the execution root, in the order of the search",
        "link_inputs": "list of File; the inputs that follow the objects in a link, in this order",
        "pack": "File; the headers in one file, see toolchains/packs.bzl; or None",
        "zig_files": "depset of File; the files that building a program in Zig needs besides the compiler",
        "zig_runtime": "File; the root source file of the functions that compilers call; None for another CPU's SDK",
    },
)

HostInfo = provider(
    doc = "A host C++ compiler that nvcc calls, or that compiles HIP.",
    fields = {
        "clang": "int; the major version of clang",
        "clang_include": "string; the directory of `includes` with clang's own headers",
        "compiler": "File; the static program that the launcher starts",
        "flags": "list of string; flags of every compile",
        "headers": "depset of File; headers: files, or directories of them",
        "includes": "list of string; system include directories from the execution root, in the order of the search",
        "launcher": "File; `clang++`",
        "pack": "File; the headers in one file, see toolchains/packs.bzl; or None",
    },
)

def _host(ctx):
    return HostInfo(
        clang = ctx.attr.clang,
        clang_include = include_paths(ctx, [CLANG_INCLUDE])[0],
        compiler = ctx.file.compiler,
        flags = cc_flags(ctx.attr.clang, ctx.attr.glibc, ctx.attr.cpu),
        headers = depset(ctx.files.compiler_files),
        includes = include_paths(ctx, ctx.attr.includes),
        launcher = ctx.file.launcher,
        pack = ctx.file.pack,
    )

def _cc_sdk_impl(ctx):
    host = _host(ctx)
    return [host, platform_common.ToolchainInfo(sdk = CcSdkInfo(
        clang_include = host.clang_include,
        compiler = host.compiler,
        cpu = ctx.attr.cpu,
        flags = host.flags,
        headers = host.headers,
        includes = host.includes,
        link_inputs = ctx.files.link_inputs,
        pack = host.pack,
        zig_files = depset(ctx.files.zig_files),
        zig_runtime = ([file for file in ctx.files.zig_files if file.short_path.endswith(_RUNTIME)] or [None])[0],
    ))]

_HOST_ATTRS = {
    "clang": attr.int(mandatory = True, doc = "The major version of clang, e.g. 19."),
    "compiler": attr.label(allow_single_file = True, mandatory = True, doc = "The static program."),
    "compiler_files": attr.label_list(allow_files = True, mandatory = True, doc = "Headers: files, or directories of them."),
    "cpu": attr.string(mandatory = True, doc = "The CPU that it compiles for, e.g. `x86_64`."),
    "glibc": attr.string(mandatory = True, doc = "Version of glibc to compile for, e.g. `2.28`."),
    "includes": attr.string_list(mandatory = True, doc = "System include directories, relative to the package."),
    "launcher": attr.label(allow_single_file = True, mandatory = True, doc = "The script for nvcc."),
    "pack": attr.label(allow_single_file = True, doc = "The headers of `compiler_files` in one file."),
}

cc_sdk = rule(
    implementation = _cc_sdk_impl,
    attrs = _HOST_ATTRS | {
        "link_inputs": attr.label_list(allow_files = True, mandatory = True, doc = "Objects, stubs and archives."),
        "zig_files": attr.label_list(allow_files = True, mandatory = True, doc = "Zig's standard library."),
    },
    doc = "A hermetic host C++ SDK.",
)

def _cc_host_impl(ctx):
    return [_host(ctx)]

cc_host = rule(
    implementation = _cc_host_impl,
    attrs = _HOST_ATTRS,
    doc = "A host C++ compiler for nvcc or HIP alone.",
)
