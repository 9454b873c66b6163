"""The action that links an extension."""

load("//toolchains:gpus.bzl", "GPUS", "gpu_of")
load(":actions.bzl", "ACTION")
load(":backends.bzl", "BACKENDS", "CC", "TORCH", "find_sdk")
load(":errors.bzl", "fail_with")

def gpu_sdk(ctx):
    """The SDK of a variant's backend.

    Args:
        ctx: context of kernel_variant.

    Returns:
        CudaSdkInfo, RocmSdkInfo, or None for a variant for the CPU.
    """
    if ctx.attr.backend == "cpu":
        return None
    name = gpu_of(ctx.attr.backend)
    if not name:
        help = "name `cpu`, or a release of %s, e.g. `cu130`" % " or ".join([BACKENDS[gpu].title for gpu in GPUS])
        fail_with(ctx.label, "backend", "unknown: `%s`" % ctx.attr.backend, help)
    backend = BACKENDS[name]
    return find_sdk(ctx, backend.toolchain, "backend", ctx.attr.backend, backend.title)

def _torch_libraries(ctx, gpu):
    """The stubs of torch's libraries for the variant's backend.

    Args:
        ctx: context of kernel_variant.
        gpu: what `gpu_sdk` returned.

    Returns:
        list of File.
    """
    if not ctx.attr.torch:
        fail_with(ctx.label, "torch", "a variant with objects needs a version", "name one, e.g. `2.13`")
    torch = find_sdk(ctx, TORCH, "torch", ctx.attr.torch, "torch")
    if ctx.attr.cxx_abi not in torch.cxx_abis:
        fail_with(
            ctx.label,
            "cxx_abi",
            "torch %s has no build with `%s`" % (torch.version, ctx.attr.cxx_abi),
            "choose from " + ", ".join(torch.cxx_abis),
        )
    return (torch.python_libraries if ctx.attr.python_version else []) + torch.cpu_libraries + (torch.gpu_libraries if gpu else [])

def link_extension(ctx, objects, optional, archives, openmp, texts, name):
    """Links objects to a shared library that exports only its PyInit function, or what tvm-ffi or a binding looks up.

    The types of the project become the library's own, unless it is for one Python: see rules/private/tools/link/object.zig.

    Through stubs, torch and the GPU runtime become needed libraries, and the other libraries of CUDA or ROCm that are
    called; torch has loaded them when the library is loaded, and their symbols are bound then. The stubs of glibc and
    of gcc's libraries contain no symbol above the maximum symbol version.

    Args:
        ctx: context of kernel_variant.
        objects: list of File.
        optional: list of File, objects that are linked only if others need them.
        archives: list of File, static libraries, whose objects are linked only if others need them.
        openmp: list of GccSdkInfo, whose OpenMP runtime the objects call.
        texts: list of File, the sources and headers of the objects.
        name: File, the id of the kernel.

    Returns:
        File, the shared library.
    """
    cc = ctx.toolchains[CC].sdk
    gpu = gpu_sdk(ctx)
    runtime = [gpu.runtime] if gpu else []
    if ctx.attr.tvm_ffi:
        libraries, exports = [file for file in ctx.files._tvm_ffi if file.extension == "so"] + runtime, ctx.file._exports_tvm_ffi
    else:
        libraries = _torch_libraries(ctx, gpu) + runtime
        exports = ctx.file._exports_binding if ctx.attr.binding else ctx.file._exports
    stubs = [stub for gcc in openmp[:1] for stub in [gcc.openmp.get(ctx.attr.torch, gcc.openmp_oldest)] + gcc.math]
    called = stubs + (gpu.libraries if gpu else [])
    library = ctx.actions.declare_file(ctx.label.name + ".parts/extension.so")
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s")
    arguments.set_param_file_format("multiline")

    # pybind11 identifies types by name: another module of the project may use this module's types.
    types = [ctx.file._shared_types, name] + texts if not ctx.attr.python_version else []
    if types:
        arguments.add("--types", ctx.file._shared_types)
        arguments.add("--id", name)
        arguments.add_all(texts, before_each = "--text")
    arguments.add("--")
    arguments.add(cc.compiler)
    arguments.add("ld.lld")
    arguments.add_all(["-shared", "--build-id=none", "--eh-frame-hdr", "--gc-sections", "--hash-style=gnu", "-O2"])

    # An object may name libraries to link, by any path (`#pragma comment(lib, "...")`); only inputs are linked.
    arguments.add("--no-dependent-libraries")
    arguments.add_all(["-z", "now", "-z", "relro", "-z", "noexecstack", "--strip-debug"])
    arguments.add("--version-script", exports)
    arguments.add("-o", library)
    arguments.add_all(cc.link_inputs[:1])
    arguments.add_all(objects)
    arguments.add_all(["--start-lib"] + optional + ["--end-lib"])
    arguments.add_all(archives)
    arguments.add_all(libraries)
    arguments.add("--as-needed")
    arguments.add_all(cc.link_inputs[1:])

    # Last, since AMD's libraries define parts of libstdc++ too.
    arguments.add_all(called)
    ctx.actions.run(
        executable = ctx.executable._link,
        arguments = [arguments],
        inputs = objects + optional + archives + libraries + called + cc.link_inputs + types + [exports],
        tools = [cc.compiler],
        outputs = [library],
        mnemonic = "KernelLink",
        progress_message = "Linking %{label}",
        toolchain = CC,
        **ACTION
    )
    return library
