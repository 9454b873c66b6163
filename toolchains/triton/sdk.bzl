"""The rule that describes a release of Triton to the rules."""

TritonSdkInfo = provider(
    doc = "A release of Triton and a hermetic Python that runs it.",
    fields = {
        "files": "depset of File; the release, the Python's other files, and the script",
        "library_path": "list of string; directories of the Python's shared libraries, from the execution root",
        "loader": "File; the dynamic loader of the Python's own C library",
        "python": "File; the Python interpreter",
        "script": "File; the program that it runs",
        "site": "string; the directory with the package `triton`, from the execution root",
        "version": "string; e.g. `3.9.0`",
    },
)

def _triton_sdk_impl(ctx):
    root = ctx.label.workspace_root + "/"
    return [TritonSdkInfo(
        files = depset(ctx.files.files + ctx.files._modules + [ctx.file._script]),
        library_path = [root + directory for directory in ctx.attr.libraries],
        loader = ctx.file.loader,
        python = ctx.file.python,
        script = ctx.file._script,
        site = root + "site",
        version = ctx.attr.version,
    )]

triton_sdk = rule(
    implementation = _triton_sdk_impl,
    attrs = {
        "files": attr.label_list(allow_files = True, mandatory = True, doc = "The release and the Python."),
        "libraries": attr.string_list(mandatory = True, doc = "The directories of the Python's shared libraries, relative to the package."),
        "loader": attr.label(allow_single_file = True, mandatory = True, doc = "The dynamic loader."),
        "python": attr.label(allow_single_file = True, mandatory = True, doc = "The interpreter."),
        "version": attr.string(mandatory = True, doc = "The release, e.g. `3.9.0`."),
        "_modules": attr.label_list(
            default = ["//toolchains/triton:stand_ins.py", "//toolchains/triton:surroundings.py"],
            allow_files = True,
        ),
        "_script": attr.label(default = "//toolchains/triton:compile.py", allow_single_file = True),
    },
    doc = "A release of Triton and a hermetic Python that runs it.",
)
