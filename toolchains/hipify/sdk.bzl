"""The rule that describes hipify to the rules."""

HipifyInfo = provider(
    doc = "The translator from CUDA to HIP.",
    fields = {
        "files": "depset of File; the Python's other files, and the script",
        "library_path": "list of string; directories of the Python's shared libraries, from the execution root",
        "loader": "File; the dynamic loader of the Python's own C library",
        "module": "list of File; torch's package `hipify`, for sources that are compiled without torch",
        "python": "File; the Python interpreter",
        "script": "File; the program that it runs",
    },
)

def _hipify_sdk_impl(ctx):
    return [HipifyInfo(
        files = depset(ctx.files.files + [ctx.file._script]),
        library_path = [ctx.label.workspace_root + "/" + one for one in ctx.attr.libraries],
        loader = ctx.file.loader,
        module = ctx.files.module,
        python = ctx.file.python,
        script = ctx.file._script,
    )]

hipify_sdk = rule(
    implementation = _hipify_sdk_impl,
    attrs = {
        "files": attr.label_list(allow_files = True, mandatory = True, doc = "Python's libraries: shared libraries and modules."),
        "libraries": attr.string_list(mandatory = True, doc = "The directories of the Python's shared libraries, relative to the package."),
        "loader": attr.label(allow_single_file = True, mandatory = True, doc = "The dynamic loader."),
        "module": attr.label_list(allow_files = [".py"], mandatory = True, doc = "torch's package `hipify`."),
        "python": attr.label(allow_single_file = True, mandatory = True, doc = "The interpreter."),
        "_script": attr.label(default = "//toolchains/hipify:hipify.py", allow_single_file = True),
    },
    doc = "torch's hipify, and a hermetic Python that runs it.",
)
