"""The rule that describes a torch SDK to the rules."""

load("//toolchains:includes.bzl", "include_paths")

TorchSdkInfo = provider(
    doc = "What compiling and linking against one torch version needs.",
    fields = {
        "cpu_libraries": "list of File; stubs of the libraries that every extension needs",
        "cxx_abis": "list of string; the C++ ABIs that this version was released with, e.g. `cxx11`",
        "cxx_standard": "int; the C++ standard that its headers ask for, e.g. 20",
        "gpu_libraries": "list of File; stubs of the libraries that an extension for GPUs needs besides",
        "headers": "depset of File; all headers: files, or directories of them",
        "hipify": "list of File; torch's package `hipify`",
        "includes": "list of string; include directories from the execution root, in the order of the search",
        "needed": "File; the directory of torch's umbrella headers less what a source does not need; None without",
        "pack": "File; `headers` and `needed` in one file, see toolchains/packs.bzl; None without",
        "pybind_defines": "list of string; options with which the wheel compiled pybind11, for modules to share its types",
        "python_libraries": "list of File; stubs of the libraries that a module for one Python needs besides",
        "root": "string; the directory of the repository from the execution root, for `__FILE__` to be without it",
        "version": "string; e.g. `2.13`",
        "wheel": "string; the SHA-256 of the wheel that the headers are of, in hexadecimal",
    },
)

def _torch_sdk_impl(ctx):
    return [platform_common.ToolchainInfo(sdk = TorchSdkInfo(
        cpu_libraries = ctx.files.cpu_libraries,
        cxx_abis = ctx.attr.cxx_abis,
        cxx_standard = ctx.attr.cxx_standard,
        gpu_libraries = ctx.files.gpu_libraries,
        headers = depset(ctx.files.headers),
        hipify = ctx.files.hipify,
        includes = include_paths(ctx, ctx.attr.includes),
        needed = ctx.file.needed,
        pack = ctx.file.pack,
        pybind_defines = ctx.attr.pybind_defines,
        python_libraries = ctx.files.python_libraries,
        root = ctx.label.workspace_root,
        version = ctx.attr.version,
        wheel = ctx.attr.wheel,
    ))]

torch_sdk = rule(
    implementation = _torch_sdk_impl,
    attrs = {
        "cpu_libraries": attr.label_list(allow_files = True, mandatory = True, doc = "Stubs, in link order."),
        "cxx_abis": attr.string_list(mandatory = True, doc = "E.g. `cxx11`."),
        "cxx_standard": attr.int(mandatory = True, doc = "17 or 20."),
        "gpu_libraries": attr.label_list(allow_files = True, mandatory = True, doc = "Stubs, in link order."),
        "headers": attr.label_list(allow_files = True, mandatory = True, doc = "All headers: files, or directories of them."),
        "hipify": attr.label_list(allow_files = [".py"], doc = "torch's package `hipify`."),
        "includes": attr.string_list(mandatory = True, doc = "Include directories, relative to the package."),
        "needed": attr.label(
            allow_single_file = True,
            doc = "The directory of umbrella headers less what a source does not need; or none.",
        ),
        "pack": attr.label(allow_single_file = True, doc = "What `headers` and `needed` name, in one file."),
        "pybind_defines": attr.string_list(doc = "Options with which the wheel compiled pybind11, if its headers do not tell."),
        "python_libraries": attr.label_list(allow_files = True, doc = "Stubs for modules for one Python, in link order."),
        "version": attr.string(mandatory = True, doc = "E.g. `2.13`."),
        "wheel": attr.string(doc = "The SHA-256 of the wheel that the headers are of, in hexadecimal."),
    },
    doc = "A slim torch SDK.",
)
