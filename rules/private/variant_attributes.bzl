"""The check of the attributes of a kernel_variant."""

load("@torch_kernels_toolchains//:libraries.bzl", "TVM_FFI")
load(":errors.bzl", "fail_with", "is_identifier")
load(":providers.bzl", "KernelObjectsInfo")
load(":stable_abi.bzl", "target_version")

def check_variant(ctx):
    """Fails if an attribute of a variant has a wrong value, or two contradict each other.

    Args:
        ctx: context of kernel_variant.
    """
    _check_values(ctx)
    module = ctx.attr.module
    if not module:
        _check_package(ctx)
        return
    others = {"python": ctx.attr.python, "python_root": ctx.attr.python_root, "triton": ctx.attr.triton, "tvm_ffi": ctx.attr.tvm_ffi}
    for attribute, value in others.items():
        if value:
            fail_with(ctx.label, attribute, "a module stands alone in its variant", "remove it, or remove `module`")
    if not all([is_identifier(part) for part in module.split(".")]):
        fail_with(ctx.label, "module", "`%s` is not a dotted name" % module, "name it as Python imports it, e.g. `pkg._C`")
    if not ctx.attr.objects:
        fail_with(ctx.label, "objects", "a module without objects", "name the kernel_objects to link")
    if ctx.attr.binding and ctx.attr.python_version:
        fail_with(ctx.label, "python_version", "a binding without Python is for every Python", "remove it, or remove `binding`")
    if ctx.attr.library_suffix and not _is_suffix(ctx.attr.library_suffix, ctx.attr.python_version):
        problem = "no library of a module ends in `%s`" % ctx.attr.library_suffix
        fail_with(ctx.label, "library_suffix", problem, "for every Python it is `.abi3.so` or `.so`, for one e.g. `.cpython-313-x86_64-linux-gnu.so` or `.so`")
    if ctx.attr.binding == bool(ctx.attr.library_suffix):
        problem = "a binding is loaded as `lib*.so`" if ctx.attr.binding else "the file of the module has no suffix"
        help = "remove it" if ctx.attr.binding else "set `.abi3.so` or `.so`, or set `binding`"
        fail_with(ctx.label, "library_suffix", problem, help)

def _check_package(ctx):
    """Fails if the attributes of a variant that is a package contradict each other."""
    if ctx.attr.binding:
        fail_with(ctx.label, "binding", "the variant is not a module", "set `module`, or remove it")
    suffix = ctx.attr.library_suffix
    if not ctx.attr.python_version:
        if suffix:
            help = "set `module` or `python_version`, or remove it"
            fail_with(ctx.label, "library_suffix", "the variant is not a module, and for every Python", help)
        return
    for attribute, value in {"stable_abi": ctx.attr.stable_abi, "tvm_ffi": ctx.attr.tvm_ffi}.items():
        if value:
            fail_with(ctx.label, attribute, "pybind11 needs torch's own headers", "remove it, or remove `python_version`")
    if not ctx.attr.objects:
        fail_with(ctx.label, "objects", "no extension for one Python without objects", "name the kernel_objects to link")
    if not suffix or not _is_suffix(suffix, ctx.attr.python_version):
        problem = "no extension for one Python ends in `%s`" % suffix
        fail_with(ctx.label, "library_suffix", problem, "set the suffix of that Python, e.g. `.cpython-313-x86_64-linux-gnu.so`")

def _is_suffix(suffix, python_version):
    """Whether Python finds the library of a module by this suffix."""
    if suffix == ".so" or not python_version:
        return suffix in [".so", ".abi3.so"]
    return suffix.startswith(".cpython-") and suffix.endswith("-linux-gnu.so") and "/" not in suffix

def _check_values(ctx):
    """Fails if an attribute has a value that would have no effect, or an effect on other variants alone."""
    metadata = json.decode(ctx.attr.metadata, default = None)
    if type(metadata) != "dict" or type(metadata.get("backend", {})) != "dict":
        problem = "it is not a JSON object whose `backend` is an object"
        fail_with(ctx.label, "metadata", problem, "write it with `json.encode({...})`")
    if type(metadata.get("backend", {}).get("archs", [])) != "list":
        fail_with(ctx.label, "metadata", "`archs` of `backend` is not a list", "write a list of strings")
    for target in ctx.attr.objects:
        other = target[KernelObjectsInfo].id
        if other and other != ctx.attr.id.label:
            problem = "the sources of `%s` see another id: `%s`" % (target.label.name, other)
            fail_with(ctx.label, "id", problem, "name one kernel_id in the variant and in all of `objects`")
    names = [target.label.name for target in ctx.attr.objects]
    if ctx.attr.more_flags and ctx.attr.more_flags[0] not in names:
        problem = "no target of `objects` is named `%s`" % ctx.attr.more_flags[0]
        fail_with(ctx.label, "more_flags", problem, "write first the name of the target, then its options")
    if ctx.attr.python_version and not ctx.files._cpython_symbols:
        problem = "no Python `%s`" % ctx.attr.python_version
        fail_with(ctx.label, "python_version", problem, "name a Python of the lock, e.g. `3.13`, or an installed one")
    if ctx.attr.stable_abi:
        _check_stable_abi(ctx)
    if len(ctx.attr.triton) > 1:
        problem = "`%s` and `%s`: a variant has one index of compiled functions" % tuple([target.label for target in ctx.attr.triton[:2]])
        fail_with(ctx.label, "triton", problem, "name one kernel_triton with the functions of both")
    if ctx.attr.tvm_ffi and ctx.attr.tvm_ffi not in TVM_FFI:
        fail_with(ctx.label, "tvm_ffi", "no tvm-ffi `%s`" % ctx.attr.tvm_ffi, "choose from " + ", ".join(TVM_FFI))

def _check_stable_abi(ctx):
    """Fails if a variant's stable ABI is no version of torch, or later than the torch that has its headers."""
    version, first = ctx.attr.torch, ctx.attr.stable_abi
    target_version(ctx.label, first)
    if version and [int(part) for part in first.split(".")] > [int(part) for part in version.split(".") if part.isdigit()]:
        problem = "torch %s, which the variant is built with, has no stable ABI of %s" % (version, first)
        fail_with(ctx.label, "stable_abi", problem, "name that release or an earlier one")
