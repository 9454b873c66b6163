"""kernel_device_link: links the device code of several sources.

For each architecture, an action runs nvlink and reads the code of that architecture alone; another action compiles the
code that registers the linked code, as nvcc does with `-dlink`. Like the phases of a compile, both run the commands
that `nvcc --dryrun` names (tools/compile/device_link.zig).
"""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("//rules/facts:compilers.bzl", "VISIBILITY")
load("//rules/facts:phases.bzl", "LINKED_CODE")
load("//rules/facts:settings.bzl", "NONE")
load(":actions.bzl", "ACTION")
load(":attrs.bzl", "tool")
load(":backends.bzl", "BACKENDS", "TOOLCHAINS", "find_sdk")
load(":compile.bzl", "NO_DIRECTORY", "add_packs", "packed")
load(":compression.bzl", "compression")
load(":cuda.bzl", "arch_number", "gencode")
load(":errors.bzl", "fail_with")
load(":providers.bzl", "KernelIdInfo", "KernelObjectsInfo", "no_objects")
load(":resources.bzl", "resources")
load(":transitions.bzl", "objects_transition")

def _order(number):
    """Ascending: `90`, `90a`, `100`."""
    digits = number.rstrip("af")
    return (int(digits), number)

def _archs(sources):
    """The architectures of all sources: capabilities by number, without PTX, which is not linked."""
    found = {arch_number(arch): arch.removesuffix("+PTX") for source in sources for arch in source.archs}
    return {number: found[number] for number in sorted(found, key = _order)}

def _kernel_device_link_impl(ctx):
    backend = BACKENDS["cuda"]
    release = ctx.attr._backend[BuildSettingInfo].value
    if release == NONE:
        return [no_objects("cuda")]
    sources = [source for target in ctx.attr.objects for source in target[KernelObjectsInfo].relocatable]
    if not sources:
        help = "add `-rdc=true` to the `cuda_flags` of the targets that share device code"
        fail_with(ctx.label, "objects", "no target has device code to link", help)
    gpu = find_sdk(ctx, backend.toolchain, "objects", release, backend.title)
    optimized = any([source.optimized for source in sources])
    if optimized and not all([source.optimized for source in sources]):
        problem = "device code with and without link-time optimization is linked together"
        fail_with(ctx.label, "objects", problem, "add `-dlto` to the `cuda_flags` of all, or of none")

    # Selects the third figures of phases.bzl.
    job = struct(gcc = None, needed = None, target_version = [], templates = False, torch = optimized)
    directory = "%s.objects/%s" % (ctx.label.name, LINKED_CODE)

    def nvcc(archs):
        arguments = ctx.actions.args()
        arguments.add("--")
        arguments.add(gpu.nvcc)
        arguments.add("-ccbin", gpu.host.launcher)
        arguments.add_all(gpu.host_flags)
        arguments.add("--objdir-as-tempdir")
        arguments.add_all([gencode(arch) for arch in archs])
        arguments.add_all(VISIBILITY + [NO_DIRECTORY], before_each = "-Xcompiler")
        arguments.add_all(ctx.attr.flags)
        arguments.add_all(["-dlto"] if optimized else [])
        arguments.add_all(["-dlink", "object.o", "-o", "link.o"])
        return arguments

    def run(mnemonic, what, arguments, inputs, outputs):
        ctx.actions.run(
            executable = ctx.executable._compile,
            arguments = arguments,
            inputs = inputs,
            mnemonic = mnemonic,
            outputs = outputs,
            progress_message = what + " for %{label}",
            resource_set = resources(mnemonic, job),
            toolchain = backend.toolchain,
            tools = [gpu.host.compiler, gpu.host.launcher, gpu.nvcc],
            **ACTION
        )

    archs = _archs(sources)
    linked = {}
    libraries = []
    runtime = [gpu.device_runtime] if gpu.device_runtime else []
    for number, arch in archs.items():
        linked[number] = ctx.actions.declare_file("%s.phases/%s/linked.cubin" % (directory, number))
        taken = ctx.actions.declare_file("%s.phases/%s/libraries.txt" % (directory, number))
        libraries.append(taken)

        # A source without machine code for this architecture may have other code that fits.
        code = [source.cubins.get(number, source.object) for source in sources]
        arguments = ctx.actions.args()
        arguments.add("device-link")
        arguments.add("--out", linked[number])
        arguments.add("--libraries", taken)
        arguments.add_all(runtime, before_each = "--runtime")
        arguments.add_all(code, before_each = "--in")
        inputs = depset(code + runtime, transitive = [gpu.programs] + ([gpu.linker_files] if optimized else []))
        run("CudaDeviceLink", "Linking device code for sm_" + number, [arguments, nvcc([arch])], inputs, [linked[number], taken])
    object = ctx.actions.declare_file(directory + ".o")
    whole = ctx.actions.declare_file(directory + ".phases/linked.o")
    brought = packed([gpu, gpu.host], [gpu.link_stub])
    arguments = ctx.actions.args()
    arguments.add("register-linked")
    add_packs(arguments, brought)
    arguments.add("--section", ctx.label.name)
    packing = compression(ctx.label, gpu, ctx.attr._compress[BuildSettingInfo].value, ctx.attr.flags)
    arguments.add_all(packing, before_each = "--fatbinary")
    for source in sources:
        arguments.add_all("--module", [source.section, source.source])
    arguments.add_all(libraries, before_each = "--libraries")
    for number, cubin in linked.items():
        arguments.add("--in", "sm_" + number)
        arguments.add(cubin)
    arguments.add("--code", whole)
    arguments.add("--out", object)
    inputs = depset(linked.values() + libraries, transitive = [gpu.programs, brought.inputs])
    run("CudaRegisterLinked", "Registering linked device code", [arguments, nvcc(archs.values())], inputs, [object, whole])
    return [
        DefaultInfo(files = depset([whole, object])),
        OutputGroupInfo(hipify = depset()),
        KernelObjectsInfo(
            archives = runtime,
            backend = "cuda",
            device = [whole],
            id = None,
            linked = [target.label.name for target in ctx.attr.objects],
            objects = [whole, object],
            openmp = None,
            openmp_by_clang = False,
            relocatable = [],
            sources = ["", ""],
            steps = linked.values() + [object],
            texts = [],
            undivided = [],
        ),
    ]

kernel_device_link = rule(
    implementation = _kernel_device_link_impl,
    cfg = objects_transition,
    attrs = {
        "backend": attr.string(
            default = "cuda",
            doc = "`cuda`.",
            values = ["cuda"],
        ),
        "depends": attr.string_list(
            doc = "`torch`, if one of `objects` depends on it; without it all versions of torch share the linked code.",
        ),
        "flags": attr.string_list(
            doc = "Further options of nvcc for linking device code, e.g. `-Xnvlink=--verbose`.",
        ),
        "id": attr.label(
            doc = "A kernel_id, if one of `objects` has one.",
            providers = [KernelIdInfo],
        ),
        "objects": attr.label_list(
            doc = "The kernel_objects whose device code is linked: all of a variant's that are compiled with `-rdc=true`.",
            mandatory = True,
            providers = [KernelObjectsInfo],
        ),
        "_backend": attr.label(default = "//rules/settings:backend"),
        "_compile": tool("compile"),
        "_compress": attr.label(default = "//rules/settings:compress"),
    },
    provides = [KernelObjectsInfo],
    toolchains = TOOLCHAINS,
    doc = "Links the device code of all sources of a variant that are compiled with `-rdc=true`, for each architecture.",
)
