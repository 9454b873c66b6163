"""The rule that describes a CUDA SDK to the rules."""

load("//rules/facts:compression.bzl", "FATBINARY")
load("//toolchains:includes.bzl", "include_paths")
load("//toolchains/cc:sdk.bzl", "HostInfo")

CudaSdkInfo = provider(
    doc = "A CUDA compiler with its headers.",
    fields = {
        "archs": "list of string; all capabilities that nvcc supports, ascending, e.g. `8.0`",
        "compress": "string; the default compression of device code; empty to leave it to nvcc",
        "compressions": "dict of list of string; fatbinary's options for each choice that it supports",
        "device_host": "HostInfo; the host compiler of the phases that do not depend on the CPU of the code",
        "device_runtime": "File; the archive with which device code launches kernels (libcudadevrt); or None",
        "files": "depset of File; the inputs of nvcc: its other programs, its headers and the host compiler's",
        "headers": "depset of File; the headers alone, for host compiles: files, or directories of them",
        "host": "HostInfo; the host compiler that nvcc calls",
        "host_flags": "list of string; options of nvcc for calls with `host`",
        "include": "string; the include directory, from the execution root",
        "libraries": "list of File; stubs of the libraries other than the runtime, which an extension needs if it calls them",
        "link_stub": "File; the host code that registers linked device code",
        "linker_files": "depset of File; further inputs of nvlink for link-time optimization (libnvvm); possibly empty",
        "markers": "list of File; a file of each repository with headers, whose path is removed from `__FILE__`",
        "nvcc": "File; the compiler driver",
        "pack": "File; `headers` in one file, see toolchains/packs.bzl; or None",
        "programs": "depset of File; nvcc's other programs and what they read",
        "runtime": "File; stub of the CUDA runtime library",
        "split": "bool; whether nvcc's phases are known and tested, so that each can be an action",
        "symbols": "File; the table of the libraries' symbols, see toolchains/lock/*.symbols; or None",
        "version": "string; e.g. `13.0`",
    },
)

def _cuda_sdk_impl(ctx):
    host = ctx.attr.host[HostInfo]
    if host.clang > ctx.attr.max_clang:
        fail("%s: nvcc of CUDA %s supports clang up to %d, and `host` is clang %d. Name an older compiler in %s." %
             (ctx.label, ctx.attr.version, ctx.attr.max_clang, host.clang, "toolchains/matrix.toml"))
    headers = depset(ctx.files.headers)
    programs = depset(ctx.files.compiler_files)
    return [platform_common.ToolchainInfo(sdk = CudaSdkInfo(
        archs = ctx.attr.archs,
        compress = ctx.attr.compress,
        compressions = FATBINARY.get(ctx.attr.compress_option, {}),
        device_host = (ctx.attr.device_host or ctx.attr.host)[HostInfo],
        device_runtime = ctx.file.device_runtime,
        files = depset(transitive = [programs, headers, host.headers]),
        headers = headers,
        host = host,
        host_flags = ctx.attr.host_flags,
        include = include_paths(ctx, [ctx.attr.include])[0],
        libraries = ctx.files.libraries,
        link_stub = ctx.file.link_stub,
        linker_files = depset(ctx.files.linker_files),
        markers = [ctx.file.nvcc],
        nvcc = ctx.file.nvcc,
        pack = ctx.file.pack,
        programs = programs,
        runtime = ctx.file.runtime,
        split = ctx.attr.split,
        symbols = ctx.file.symbols,
        version = ctx.attr.version,
    ))]

cuda_sdk = rule(
    implementation = _cuda_sdk_impl,
    attrs = {
        "archs": attr.string_list(mandatory = True, doc = "The capabilities that nvcc supports, ascending, e.g. `8.0`."),
        "compiler_files": attr.label_list(allow_files = True, mandatory = True, doc = "cicc, ptxas, libdevice, ..."),
        "compress": attr.string(doc = "The default compression of device code; empty to leave it to nvcc."),
        "compress_option": attr.string(doc = "fatbinary's newest compression option: a key of rules/facts/compression.bzl; empty if it has none.", values = [""] + list(FATBINARY)),
        "device_host": attr.label(providers = [HostInfo], doc = "The host compiler for this CPU, if `host` is for another."),
        "device_runtime": attr.label(allow_single_file = True, doc = "libcudadevrt.a, if there is one."),
        "headers": attr.label_list(allow_files = True, mandatory = True, doc = "The toolkit's headers: files, or directories of them."),
        "host": attr.label(mandatory = True, providers = [HostInfo], doc = "The host compiler."),
        "host_flags": attr.string_list(doc = "Options of nvcc for calls with `host`."),
        "include": attr.string(mandatory = True, doc = "The include directory, relative to the package."),
        "libraries": attr.label_list(allow_files = True, doc = "Stubs of the libraries other than the runtime."),
        "link_stub": attr.label(allow_single_file = True, mandatory = True, doc = "crt/link.stub."),
        "linker_files": attr.label_list(allow_files = True, doc = "libnvvm, if there is one."),
        "max_clang": attr.int(mandatory = True, doc = "The newest clang that nvcc supports (its crt/host_config.h)."),
        "nvcc": attr.label(allow_single_file = True, mandatory = True, doc = "The compiler driver."),
        "pack": attr.label(allow_single_file = True, doc = "The headers of `headers` in one file."),
        "runtime": attr.label(allow_single_file = True, mandatory = True, doc = "Stub of libcudart."),
        "split": attr.bool(mandatory = True, doc = "Whether this nvcc was tested phase by phase."),
        "symbols": attr.label(allow_single_file = True, doc = "The table of the libraries' symbols, if there is one."),
        "version": attr.string(mandatory = True, doc = "E.g. `13.0`."),
    },
    doc = "A hermetic CUDA SDK.",
)
