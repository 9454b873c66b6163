"""The rule that describes a CUDA SDK to the rules."""

load("//rules/facts:compression.bzl", "FATBINARY")
load("//toolchains:includes.bzl", "include_paths")
load("//toolchains/cc:sdk.bzl", "HostInfo")

CudaSdkInfo = provider(
    doc = "A CUDA compiler with its headers.",
    fields = {
        "archs": "list of string; all capabilities that the nvcc knows, ascending, e.g. `8.0`",
        "compress": "string; how device code is compressed where nobody chooses; empty to leave that to nvcc",
        "compressions": "dict; by each choice that its fatbinary knows, what that is told: list of string",
        "device_host": "HostInfo; the host compiler of the phases to which it is no matter what CPU the code is for",
        "device_runtime": "File; the archive of what device code calls to launch kernels (libcudadevrt); None without",
        "files": "depset of File; what nvcc needs besides itself: its other programs and the headers, the host compiler's too",
        "headers": "depset of File; the headers alone, for host compiles: files, or directories of them",
        "host": "HostInfo; the host compiler that nvcc calls",
        "host_flags": "list of string; options of nvcc where it calls that one",
        "include": "string; the include directory, from the execution root",
        "libraries": "list of File; stubs of the libraries other than the runtime, which an extension needs if it calls them",
        "link_stub": "File; the host code that registers linked device code",
        "linker_files": "depset of File; what nvlink reads besides for link-time optimization (libnvvm); empty without",
        "markers": "list of File; one of each repository with headers, of which `__FILE__` is to be without the name",
        "nvcc": "File; the compiler driver",
        "pack": "File; `headers` in one file, see toolchains/packs.bzl; None without",
        "programs": "depset of File; nvcc's other programs and what they read",
        "runtime": "File; stub of the CUDA runtime library",
        "split": "bool; whether the phases of the nvcc are known and tested, so that each can be an action",
        "symbols": "File; what the libraries define, see toolchains/lock/*.symbols; None if that is not recorded",
        "version": "string; e.g. `13.0`",
    },
)

def _cuda_sdk_impl(ctx):
    host = ctx.attr.host[HostInfo]
    if host.clang > ctx.attr.max_clang:
        fail("%s: nvcc of CUDA %s takes clang up to %d, and `host` is clang %d. Name an older compiler in %s." %
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
        "archs": attr.string_list(mandatory = True, doc = "The capabilities that nvcc knows, ascending, e.g. `8.0`."),
        "compiler_files": attr.label_list(allow_files = True, mandatory = True, doc = "cicc, ptxas, libdevice, ..."),
        "compress": attr.string(doc = "How device code is compressed where nobody chooses; empty to leave that to nvcc."),
        "compress_option": attr.string(doc = "The newest option of fatbinary for that: a key of rules/facts/compression.bzl; empty for none.", values = [""] + list(FATBINARY)),
        "device_host": attr.label(providers = [HostInfo], doc = "The host compiler for this CPU, if `host` is for another."),
        "device_runtime": attr.label(allow_single_file = True, doc = "libcudadevrt.a, if there is one."),
        "headers": attr.label_list(allow_files = True, mandatory = True, doc = "The toolkit's headers: files, or directories of them."),
        "host": attr.label(mandatory = True, providers = [HostInfo], doc = "The host compiler."),
        "host_flags": attr.string_list(doc = "Options of nvcc where it calls `host`."),
        "include": attr.string(mandatory = True, doc = "The include directory, relative to the package."),
        "libraries": attr.label_list(allow_files = True, doc = "Stubs of the libraries other than the runtime."),
        "link_stub": attr.label(allow_single_file = True, mandatory = True, doc = "crt/link.stub."),
        "linker_files": attr.label_list(allow_files = True, doc = "libnvvm, if there is one."),
        "max_clang": attr.int(mandatory = True, doc = "The newest clang that nvcc takes (its crt/host_config.h)."),
        "nvcc": attr.label(allow_single_file = True, mandatory = True, doc = "The compiler driver."),
        "pack": attr.label(allow_single_file = True, doc = "What `headers` names, in one file."),
        "runtime": attr.label(allow_single_file = True, mandatory = True, doc = "Stub of libcudart."),
        "split": attr.bool(mandatory = True, doc = "Whether this nvcc was tested phase by phase."),
        "symbols": attr.label(allow_single_file = True, doc = "What the libraries define, if that is recorded."),
        "version": attr.string(mandatory = True, doc = "E.g. `13.0`."),
    },
    doc = "A hermetic CUDA SDK.",
)
