"""The action that turns the CUDA sources of a section into HIP with torch's hipify."""

load(":actions.bzl", "ACTION", "package_path")
load(":errors.bzl", "check_paths", "fail_with")

def renamed(name):
    """A part of a path as hipify renames it.

    Args:
        name: string.

    Returns:
        string.
    """
    return name.replace("cuda", "hip").replace("CUDA", "HIP").replace("THC", "THH")

def hip_name(path):
    """The path of hipify's output for a source of an extension: `get_hip_file_path` of torch.utils.hipify.

    Args:
        path: string, of the source within its package.

    Returns:
        string, a relative path.
    """
    if path.endswith(".hip"):
        return path
    directory, slash, name = path.rpartition("/")
    root, dot, extension = name.rpartition(".")
    made = renamed(root) + dot + ("hip" if extension == "cu" else extension)
    if renamed(directory) == directory and made == name:
        made = root + "_hip" + dot + extension
    return renamed(directory) + slash + made

def _package_of(file):
    """The directory that contains the Python package of a file."""
    return file.dirname.rpartition("/")[0]

def hipify(ctx, rocm, torch, sources):
    """Turns the sources and headers of a section into HIP.

    Args:
        ctx: context of kernel_objects.
        rocm: RocmSdkInfo.
        torch: TorchSdkInfo whose hipify runs; None for sources that are compiled without torch.
        sources: dict of File by File, see sources.bzl.

    Returns:
        File, a directory with the files under their own names and under hipify's names; and File, the report.
    """
    sdk = rocm.hipify
    module = torch.hipify if torch else sdk.module
    names = {}
    for path in [package_path(file) for file in ctx.files.srcs]:
        other = names.setdefault(hip_name(path), path)
        if other != path:
            fail_with(
                ctx.label,
                "srcs",
                "hipify turns both `%s` and `%s` into `%s`" % (other, path, hip_name(path)),
                "rename one of them",
            )
    check_paths(ctx.label, "hdrs", ctx.files.srcs + ctx.files.hdrs, "rename one: hipify writes all files into one directory")
    directory = ctx.actions.declare_directory(ctx.label.name + ".hipified")
    report = ctx.actions.declare_file(ctx.label.name + ".hipify.json")
    arguments = ctx.actions.args()
    arguments.add_joined("--library-path", sdk.library_path, join_with = ":")
    arguments.add(sdk.python)
    arguments.add_all(["-I", "-S", "-B"])
    arguments.add(sdk.script)
    arguments.add("sources")
    arguments.add_all(module[:1], map_each = _package_of)
    arguments.add_all([directory], expand_directories = False)
    arguments.add(report)

    # If several directories contain a header, hipify uses the last; the compiler uses the first.
    arguments.add_all(reversed(ctx.attr.includes), before_each = "-I")
    arguments.add_all([package_path(file) for file in ctx.files.srcs], before_each = "-s")
    for file in ctx.files.srcs + ctx.files.hdrs:
        arguments.add("-f", package_path(file))
        arguments.add(sources[file])
    ctx.actions.run(
        executable = sdk.loader,
        arguments = [arguments],
        inputs = depset(sources.values() + module + [sdk.python], transitive = [sdk.files]),
        outputs = [directory, report],
        mnemonic = "Hipify",
        progress_message = "Turning %{label} into HIP",
        toolchain = Label("//toolchains/rocm:toolchain_type"),
        **ACTION
    )
    return directory, report
