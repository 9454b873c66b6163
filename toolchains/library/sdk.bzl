"""The rule that describes the headers of a library to the rules."""

load("//toolchains:includes.bzl", "include_paths")

LibrarySdkInfo = provider(
    doc = "The headers of a library.",
    fields = {
        "defines": "list of string; options that define macros for it",
        "headers": "depset of File; all headers: files, or directories of them",
        "includes": "list of string; include directories from the execution root, in the order of the search",
        "name": "string; its name in a section's `depends`, e.g. `cutlass_3_6`",
        "pack": "File; `headers` in one file, see toolchains/packs.bzl; or None",
        "root": "string; the directory of the repository from the execution root, which is removed from `__FILE__`",
    },
)

def _library_sdk_impl(ctx):
    headers = depset(ctx.files.headers)
    return [LibrarySdkInfo(
        defines = ["-D" + one for one in ctx.attr.defines],
        headers = headers,
        includes = include_paths(ctx, ctx.attr.includes),
        name = ctx.attr.depends,
        pack = ctx.file.pack,
        root = ctx.label.workspace_root,
    )]

library_sdk = rule(
    implementation = _library_sdk_impl,
    attrs = {
        "defines": attr.string_list(doc = "Macros to define for it, e.g. `NAME=VALUE`."),
        "depends": attr.string(mandatory = True, doc = "Its name in a section's `depends`, e.g. `cutlass_3_6`."),
        "headers": attr.label_list(allow_files = True, mandatory = True, doc = "All headers: files, or directories of them."),
        "includes": attr.string_list(mandatory = True, doc = "Include directories, relative to the package."),
        "pack": attr.label(allow_single_file = True, doc = "The headers of `headers` in one file."),
    },
    provides = [LibrarySdkInfo],
    doc = "The headers of a library: of a CUTLASS release, of a library in a user's matrix, or of Python.",
)
