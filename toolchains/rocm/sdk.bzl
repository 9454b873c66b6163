"""The rule that describes a ROCm SDK to the rules."""

load("//toolchains:includes.bzl", "include_paths")
load("//toolchains/cc:sdk.bzl", "HostInfo")
load("//toolchains/hipify:sdk.bzl", "HipifyInfo")

RocmSdkInfo = provider(
    doc = "A ROCm SDK: a compiler, headers, device libraries and stubs.",
    fields = {
        "bitcode": "list of File; the device libraries as LLVM bitcode, all in one directory",
        "compiler": "File; static program: `clang ARGUMENT...` compiles for GPU and host, `ld.lld ARGUMENT...` links",
        "flags": "list of string; flags of every compile",
        "headers": "depset of File; HIP's headers, and clang's for HIP: directories of them",
        "hipify": "HipifyInfo; the translator from CUDA to HIP",
        "include": "string; HIP's include directory, from the execution root",
        "includes": "list of string; system include directories from the execution root, in the order of the search",
        "libraries": "list of File; stubs of the other libraries, which an extension needs if it calls them",
        "markers": "list of File; a file of each repository with headers, whose path is removed from `__FILE__`",
        "pack": "File; the headers in one file, see toolchains/packs.bzl; or None",
        "runtime": "File; stub of the HIP runtime library",
        "symbols": "File; the table of the libraries' symbols, see toolchains/lock/*.symbols; or None",
        "system": "HostInfo; the host compiler whose C and C++ library headers are read",
        "version": "string; e.g. `7.2`",
    },
)

def _rocm_sdk_impl(ctx):
    host = ctx.attr.host[HostInfo]
    system = ctx.attr.system[HostInfo]

    # clang's wrappers stand before the C++ library that they wrap, and its own headers replace zig's, which lack the
    # headers for HIP.
    wrappers, clang, hip = include_paths(ctx, ["clang/include/cuda_wrappers", "clang/include", "include"])
    includes = [wrappers] + [clang if one == system.clang_include else one for one in system.includes]
    return [platform_common.ToolchainInfo(sdk = RocmSdkInfo(
        bitcode = ctx.files.bitcode,
        compiler = host.compiler,
        flags = host.flags,
        headers = depset(ctx.files.clang_headers + ctx.files.headers),
        hipify = ctx.attr.hipify[HipifyInfo],
        include = hip,
        includes = includes,
        libraries = ctx.files.libraries,
        markers = [system.compiler, ctx.file.runtime],
        pack = ctx.file.pack,
        runtime = ctx.file.runtime,
        symbols = ctx.file.symbols,
        system = system,
        version = ctx.attr.version,
    ))]

rocm_sdk = rule(
    implementation = _rocm_sdk_impl,
    attrs = {
        "bitcode": attr.label_list(allow_files = [".bc"], mandatory = True, doc = "The device libraries."),
        "clang_headers": attr.label_list(allow_files = True, mandatory = True, doc = "clang's own headers: directories of them."),
        "headers": attr.label_list(allow_files = True, mandatory = True, doc = "HIP's headers: directories of them."),
        "hipify": attr.label(mandatory = True, providers = [HipifyInfo], doc = "The translator from CUDA to HIP."),
        "host": attr.label(mandatory = True, providers = [HostInfo], doc = "The compiler."),
        "libraries": attr.label_list(allow_files = True, doc = "Stubs of the libraries other than the runtime."),
        "pack": attr.label(allow_single_file = True, doc = "The headers of `headers` and `clang_headers` in one file."),
        "runtime": attr.label(allow_single_file = True, mandatory = True, doc = "Stub of the HIP runtime."),
        "symbols": attr.label(allow_single_file = True, doc = "The table of the libraries' symbols, if there is one."),
        "system": attr.label(
            mandatory = True,
            providers = [HostInfo],
            doc = "The host compiler whose C and C++ library headers are read: a later zig's headers reject an older glibc.",
        ),
        "version": attr.string(mandatory = True, doc = "E.g. `7.2`."),
    },
    doc = "A hermetic ROCm SDK.",
)
