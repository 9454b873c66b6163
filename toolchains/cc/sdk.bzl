"""The rule that describes the host C++ SDK to the rules."""

load(":flags.bzl", "FLAGS", "glibc_defines")

CcSdkInfo = provider(
    doc = "A hermetic host C++ compiler and linker.",
    fields = {
        "compiler": "File; static program: `clang ARGUMENT...` compiles, `ld.lld ARGUMENT...` links",
        "files": "depset of File; what a compile needs besides",
        "flags": "list of string; flags of every compile",
        "include_markers": "list of File; each stands in a system include directory, in the order of the search",
        "launcher": "File; `clang++` as nvcc calls its host compiler",
        "link_inputs": "list of File; what follows the objects in a link, in this order",
        "zig_files": "depset of File; what building a program written in Zig needs besides the compiler",
    },
)

def _cc_sdk_impl(ctx):
    return [platform_common.ToolchainInfo(sdk = CcSdkInfo(
        compiler = ctx.file.compiler,
        files = depset(ctx.files.compiler_files + ctx.files.include_markers),
        flags = FLAGS + glibc_defines(ctx.attr.glibc),
        include_markers = ctx.files.include_markers,
        launcher = ctx.file.launcher,
        link_inputs = ctx.files.link_inputs,
        zig_files = depset(ctx.files.zig_files),
    ))]

cc_sdk = rule(
    implementation = _cc_sdk_impl,
    attrs = {
        "compiler": attr.label(allow_single_file = True, mandatory = True, doc = "The static program."),
        "compiler_files": attr.label_list(allow_files = True, mandatory = True, doc = "Headers."),
        "glibc": attr.string(mandatory = True, doc = "Version of glibc to compile for, e.g. `2.28`."),
        "include_markers": attr.label_list(
            allow_files = True,
            mandatory = True,
            doc = "A file in each system include directory.",
        ),
        "launcher": attr.label(allow_single_file = True, mandatory = True, doc = "The script for nvcc."),
        "link_inputs": attr.label_list(allow_files = True, mandatory = True, doc = "Objects, stubs and archives."),
        "zig_files": attr.label_list(allow_files = True, mandatory = True, doc = "Zig's standard library."),
    },
    doc = "A hermetic host C++ SDK.",
)
