"""The action that checks a linked extension: whether every system, Python and torch that it is for can load it."""

load("//toolchains/cc:flags.bzl", "CPU")
load(":actions.bzl", "ACTION")
load(":backends.bzl", "CC", "LANGUAGES", "TORCH")
load(":link.bzl", "gpu_sdk")

_POLICY = {
    "libraries.txt": "--libraries",
    "loading.txt": "--loading",
    "python_stable_abi.txt": "--python-abi",
    "symbol_versions.txt": "--versions",
    "system_symbols.txt": "--system",
    "torch_shims.txt": "--torch-shims",
    "weak_symbols.txt": "--weak",
}

def _stated_archs(ctx, objects):
    """The architectures that metadata.json states; `none` if the extension has no device code."""
    if not [o for o in objects if o.basename.split(".")[-2] in LANGUAGES]:
        return "none"
    return ",".join(json.decode(ctx.attr.metadata).get("backend", {}).get("archs", []))

def check_extension(ctx, extension, objects, id):
    """Checks an extension.

    The action is a validation: Bazel runs it whenever the variant is built, in parallel with the users of the
    extension, unless `--norun_validations` is set.

    Args:
        ctx: context of kernel_variant.
        extension: File, the linked extension.
        objects: list of File, what it was linked from.
        id: File, the id of the kernel as text.

    Returns:
        depset of File, the report, for the output group `_validation`.
    """
    report = ctx.actions.declare_file(ctx.label.name + ".parts/check.json")
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s")
    arguments.set_param_file_format("multiline")
    arguments.add(extension)
    for file in ctx.files._policy:
        arguments.add(_POLICY[file.basename], file)
    if ctx.attr.module:
        arguments.add("--binding" if ctx.attr.binding else "--module", ctx.attr.module.split(".")[-1])
    else:
        arguments.add("--id", id)
    stated = _stated_archs(ctx, objects)
    if stated:
        arguments.add("--metadata-archs", stated)
    arguments.add("--cpu", ctx.attr.cpu or CPU)
    if ctx.attr.archs:
        arguments.add_joined("--archs", ctx.attr.archs, join_with = ",")
    if ctx.attr.cxx_abi:
        arguments.add("--cxx-abi", ctx.attr.cxx_abi)
    arguments.add_all(objects, before_each = "--object")

    # Read only if a symbol is undefined, to find out which object refers to it.
    linker = ctx.toolchains[CC].sdk.compiler
    arguments.add("--linker", linker)
    arguments.add("--torch-exports", ctx.file._torch_exports)
    symbols = []
    if ctx.attr.tvm_ffi:
        arguments.add("--framework", "tvm-ffi")
        symbols += [one for one in ctx.files._tvm_ffi if one.extension != "so"]
    else:
        arguments.add("--torch", ctx.attr.torch)
        arguments.add("--torch-wheel", ctx.toolchains[TORCH].sdk.wheel)
    if ctx.attr.python_version:
        python = ctx.files._cpython_symbols + [ctx.file._torch_python_exports]
        arguments.add_all(ctx.files._cpython_symbols, before_each = "--python-symbols")
        arguments.add("--torch-python", ctx.file._torch_python_exports)
    else:
        python = []
    arguments.add("--backend", ctx.attr.backend)
    gpu = gpu_sdk(ctx)
    symbols += [gpu.symbols] if gpu and gpu.symbols else []
    arguments.add_all(symbols, before_each = "--gpu-symbols")
    if ctx.attr.stable_abi:
        arguments.add("--torch-stable-abi", ctx.attr.stable_abi)
    arguments.add("--report", report)
    ctx.actions.run(
        executable = ctx.executable._abi_check,
        arguments = [arguments],
        inputs = [extension, id, linker, ctx.file._torch_exports] + python + symbols + objects + ctx.files._policy,
        outputs = [report],
        mnemonic = "KernelCheck",
        progress_message = "Checking %{label}",
        toolchain = CC,
        **ACTION
    )
    return depset([report])
