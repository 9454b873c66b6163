"""The rule that describes a torch SDK to the rules."""

load("//toolchains:includes.bzl", "include_paths")

TorchSdkInfo = provider(
    doc = "The inputs for compiling and linking against a torch version.",
    fields = {
        "cpu_libraries": "list of File; stubs of the libraries that every extension needs",
        "cxx_abis": "list of string; the C++ ABIs of this version's releases, e.g. `cxx11`",
        "cxx_standard": "int; the C++ standard that its headers require, e.g. 20",
        "gpu_libraries": "list of File; stubs of the libraries that an extension for GPUs also needs",
        "headers": "depset of File; all headers: files, or directories of them",
        "hipify": "list of File; torch's package `hipify`",
        "includes": "list of string; include directories from the execution root, in the order of the search",
        "needed": "File; the directory of torch's umbrella headers without the parts that a source does not need; or None",
        "pack": "File; `headers` and `needed` in one file, see toolchains/packs.bzl; or None",
        "pybind_defines": "list of string; options that the wheel's pybind11 was compiled with, so that modules share its types",
        "python_libraries": "list of File; stubs of the libraries that a module for one Python also needs",
        "root": "string; the directory of the repository from the execution root, which is removed from `__FILE__`",
        "version": "string; e.g. `2.13`",
        "wheel": "string; the SHA-256 of the headers' wheel, in hexadecimal",
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
            doc = "The directory of umbrella headers without the parts that a source does not need; or none.",
        ),
        "pack": attr.label(allow_single_file = True, doc = "The headers of `headers` and `needed` in one file."),
        "pybind_defines": attr.string_list(doc = "Options that the wheel's pybind11 was compiled with, if its headers do not define them."),
        "python_libraries": attr.label_list(allow_files = True, doc = "Stubs for modules for one Python, in link order."),
        "version": attr.string(mandatory = True, doc = "E.g. `2.13`."),
        "wheel": attr.string(doc = "The SHA-256 of the headers' wheel, in hexadecimal."),
    },
    doc = "A torch SDK: headers, and stubs of the libraries.",
)
