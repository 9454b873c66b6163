"""The actions that compile one CUDA source: one for each phase of nvcc, or one for all of them.

If split, each phase is an action of its own, whose key is its inputs: sources with equal preprocessed text are compiled
once, a further architecture is preprocessed and compiled alone, and architectures are compiled in parallel. With
torch's headers one action preprocesses for the host and all architectures, so that it can tell which texts are equal.
Every phase runs the command that `nvcc --dryrun` names for it (tools/compile/nvcc.zig), so both ways produce the same
code. The code of all architectures, which nvcc includes into the host code as text, is an object of its own.
"""

load("//rules/facts:compilers.bzl", "NVCC_FLAGS", "VISIBILITY")
load("//rules/facts:flags.bzl", "THREADS")
load(":actions.bzl", "package_path")
load(
    ":compile.bzl",
    "add_packs",
    "id_header",
    "language_flags",
    "packed",
    "packed_inputs",
    "prefix_maps",
    "preprocessor_flags",
    "preprocessor_inputs",
    "scanned",
    "without_definitions",
)
load(":errors.bzl", "fail_with")
load(":phase.bzl", "headers_file", "object_file", "phase_file", "run_phase")

# The characters of paths besides letters and digits. nvcc divides the options for the host compiler at commas.
_SIGNS = "_.+=@~^!-/"

# Phases that write the host stub; others read it.
_STUB_WRITERS = ["cicc", "device-frontend"]

# Phases that do not depend on the CPU of the host: variants for several CPUs share them.
_OF_THE_DEVICE = ["device-compile", "ptxas"]

def without_threads(flags):
    """An author's flags for nvcc without the options for the number of commands that it runs at once.

    Args:
        flags: list of string.

    Returns:
        list of string.
    """
    return [
        flag
        for i, flag in enumerate(flags)
        if flag.split("=")[0] not in THREADS and not (i and flags[i - 1] in THREADS)
    ]

def arch_number(arch):
    """The number of an architecture, by which files are named.

    Args:
        arch: string, a capability.

    Returns:
        string, `90a` for `9.0a+PTX`.
    """
    return arch.removesuffix("+PTX").replace(".", "")

def _arch_list(archs):
    """The value of `__CUDA_ARCH_LIST__` for capabilities: `800,900` for `9.0a` and `8.0`."""
    numbers = {int(arch_number(arch).rstrip("af")): None for arch in archs}
    return ",".join(["%d0" % number for number in sorted(numbers)])

def gencode(arch, kind = "sm"):
    """The nvcc option for a capability.

    Args:
        arch: string, a capability: `9.0` for machine code, `9.0+PTX` for PTX too.
        kind: string, `sm` for machine code, or `lto` for code that is optimised when device code is linked.

    Returns:
        string.
    """
    number = arch_number(arch)
    targets = "%s_%s" % (kind, number)
    if arch.endswith("+PTX"):
        targets = "[%s,compute_%s]" % (targets, number)
    return "-gencode=arch=compute_%s,code=%s" % (number, targets)

def _nvcc(arguments, job, archs, host):
    """Adds the call of nvcc with the options that every phase needs."""
    arguments.add("--")
    arguments.add(job.gpu.nvcc)
    arguments.add("-ccbin", host.launcher)
    arguments.add_all(job.gpu.host_flags if host == job.gpu.host else [])
    arguments.add("--objdir-as-tempdir")
    arguments.add_all(NVCC_FLAGS)
    arguments.add_all(["-rdc=true"] if job.linking.relocatable else [])
    kind = "lto" if job.linking.optimized else "sm"
    arguments.add_all([gencode(arch, kind) for arch in archs])
    arguments.add_all(VISIBILITY, before_each = "-Xcompiler")
    arguments.add_all(language_flags(job, dialect = "c"))

def _call(arguments, job, source, archs, object):
    """Adds the call of nvcc that compiles a source for capabilities, with the options that preprocessing needs."""
    _nvcc(arguments, job, archs, job.gpu.host)
    prefix_maps(arguments, job, source, job.gpu.host.compiler, before_each = "-Xcompiler")
    preprocessor_flags(arguments, job, job.needed, id_header(job))
    arguments.add_all(job.cuda_flags)
    arguments.add("-c", job.sources[source])
    arguments.add_all(["-o", object])

def _run(ctx, job, source, mnemonic, what, arguments, inputs, outputs, host = None):
    host = host or job.gpu.host
    program = {"executable": ctx.executable._compile, "tools": [host.compiler, host.launcher, job.gpu.nvcc]}
    run_phase(ctx, job, source, job.backend.toolchain, mnemonic, what, arguments, inputs, outputs, program)

def _check_path(ctx, source):
    """Fails if a path in nvcc's commands has a character that nvcc or its shell would not read as a part of the path."""
    path = package_path(source)
    for name, signs in [(ctx.label.package, _SIGNS), (ctx.label.name, _SIGNS), (path, _SIGNS + ",")]:
        strange = [character for character in name.elems() if not character.isalnum() and character not in signs]
        if strange:
            problem = "nvcc cannot compile `%s` of this target: `%s` has `%s`" % (path, name, strange[0])
            fail_with(ctx.label, "srcs", problem, "rename it with letters, digits and `%s`" % " ".join(signs.elems()))

def compile_cuda(ctx, job, source):
    """Compiles a CUDA source for all capabilities of the variant.

    Args:
        ctx: rule context.
        job: struct of what all sources of a target have in common; see kernel_objects.bzl.
        source: File to compile.

    Returns:
        list of File, the objects to link; list of File, the first output of each action; and, if the device code needs
        linking, a struct, see `relocatable` of KernelObjectsInfo; else None.
    """
    _check_path(ctx, source)
    split = not job.linking.optimized and job.cuda_compile != "monolithic" and job.gpu.split
    return (_compile_split if split else _compile_monolithic)(ctx, job, source)

def _compile_monolithic(ctx, job, source):
    """Compiles a CUDA source in one action."""
    object = object_file(ctx, source)
    arguments = ctx.actions.args()
    arguments.add("nvcc")
    arguments.add_all(["--source", package_path(source), "--section", ctx.label.name])
    arguments.add_all(job.packing, before_each = "--fatbinary")
    _call(arguments, job, source, job.archs, object)
    inputs = preprocessor_inputs(job, source, [job.gpu.files], id_header(job), job.needed)
    _run(ctx, job, source, "KernelCudaCompile", "Compiling", [arguments], inputs, [object])
    return [object], [object], _relocatable(ctx, job, source, object, {})

def _relocatable(ctx, job, source, object, cubins):
    """The entry in `relocatable` of KernelObjectsInfo; None if the source's device code needs no linking."""
    if not job.linking.relocatable:
        return None
    return struct(
        archs = job.archs,
        cubins = cubins,
        object = object,
        optimized = job.linking.optimized,
        section = ctx.label.name,
        source = package_path(source),
    )

def _compile_split(ctx, job, source):
    """Compiles a CUDA source with one action for each phase of nvcc and each capability of the variant.

    The code of all capabilities is an object of its own, so that the host code is compiled in parallel, and not again
    for a further capability, unless that is the last one and its launch bounds differ.
    """
    directory = "%s.objects/%s.phases/" % (ctx.label.name, package_path(source))
    archs = {arch_number(arch): [arch.removesuffix("+PTX")] for arch in job.archs}
    later_flags = without_definitions(job.cuda_flags)

    # With torch's headers, the front end takes nearly all of the time, so it is an action of its own.
    has_frontend = job.torch and not job.target_version
    brought = packed_inputs(job, source, [job.gpu, job.gpu.host], id_header(job), job.needed)
    headers = depset(transitive = [job.gpu.programs, brought.inputs])

    # The architecture of the host's phases has no effect, as long as it is always the same.
    host = [job.gpu.archs[-1]]
    arch_list = _arch_list(job.archs if job.own_arch_list else job.gpu.archs)
    host_text = phase_file(ctx, source, "CudaPreprocess")
    texts = {number: phase_file(ctx, source, "CudaPreprocess", number) for number in archs}
    firsts = []
    tried = [headers_file(ctx, source, "tried.txt")] if job.needed else []

    def preprocess(what, of_host, of_archs):
        arguments = ctx.actions.args()
        arguments.add("preprocess")
        arguments.add("--arch-list", arch_list)
        arguments.add_all(["--share"] if has_frontend else [])
        add_packs(arguments, brought)
        arguments.add_all(scanned(job, source, job.needed), before_each = "--scan")
        arguments.add_all(tried, before_each = "--read")
        arguments.add_all("--host", of_host + [gencode(host[0]) for _ in of_host])
        for number, text in of_archs.items():
            arguments.add_all("--device", [number, text, gencode(archs[number][0])])
        _call(arguments, job, source, [], "object.o")
        made = of_host + of_archs.values() + tried
        _run(ctx, job, source, "CudaPreprocess", what, [arguments], headers, made)
        firsts.append(made[0])

    preprocess("Preprocessing", [host_text], texts if has_frontend else {})
    for number, text in ({} if has_frontend else texts).items():
        preprocess("Preprocessing for sm_" + number, [], {number: text})

    def later(phase, mnemonic, what, out, archs, inputs, stub = None, sdks = []):
        arguments = ctx.actions.args()
        arguments.add_all(["phase", phase, "--source", package_path(source), "--section", ctx.label.name])
        arguments.add_all(["--attempt"] if job.needed else [])
        arguments.add_all(job.packing if phase == "fatbinary" else [], before_each = "--fatbinary")
        for role, file in inputs.items():
            arguments.add("--in", role)
            arguments.add(file)
        arguments.add("--out", out)
        if stub:
            arguments.add("--stub", stub)
        files = inputs.values()
        outputs = [out]
        if stub:
            (outputs if phase in _STUB_WRITERS else files).append(stub)
        read = packed(sdks, files)
        add_packs(arguments, read)
        asked = job.gpu.device_host if phase in _OF_THE_DEVICE else job.gpu.host
        _nvcc(arguments, job, archs, asked)
        arguments.add_all(later_flags)
        arguments.add_all(["-c", "source.cu", "-o", "object.o"])
        files = depset(files, transitive = [job.gpu.programs, read.inputs])
        _run(ctx, job, source, mnemonic, what, [arguments], files, outputs, asked)
        firsts.append(out)
        return out

    images = {}
    codes = texts

    # The host stub is the same for all architectures unless launch bounds differ; nvcc uses the last architecture's. Its
    # file name omits the architecture to keep it out of later action keys.
    stubs = {number: ctx.actions.declare_file(directory + number + "/stub.c") for number in archs}
    if has_frontend:
        codes, stub = _read_texts(ctx, job, source, directory, archs, texts, stubs, later, firsts)
    else:
        stub = ctx.actions.declare_file(directory + "stub.c")
        ctx.actions.symlink(output = stub, target_file = stubs.values()[-1])
    for number, arch in archs.items():
        ptx = phase_file(ctx, source, "CudaDeviceCompile", number)
        what = "Compiling for sm_" + number
        if has_frontend:
            later("device-compile", "CudaDeviceCompile", what, ptx, arch, {"code": codes[number]})
        else:
            later("cicc", "CudaDeviceCompile", what, ptx, arch, {"code": codes[number]}, stubs[number])
        cubin = phase_file(ctx, source, "CudaAssemble", number)
        later("ptxas", "CudaAssemble", "Assembling for sm_" + number, cubin, arch, {"code": ptx})
        images["sm_" + number] = cubin
        if number in [arch_number(arch) for arch in job.archs if arch.endswith("+PTX")]:
            images["compute_" + number] = ptx
    fatbin = phase_file(ctx, source, "CudaFatbinary")
    later("fatbinary", "CudaFatbinary", "Bundling the code of", fatbin, job.archs, images)

    code = phase_file(ctx, source, "CudaFrontend")
    later("frontend", "CudaFrontend", "Reading", code, host, {"code": host_text})
    compiled = phase_file(ctx, source, "CudaHostCompile")
    later(
        "host-compile",
        "CudaHostCompile",
        "Compiling the host code of",
        compiled,
        host,
        {"code": code},
        stub,
        sdks = [job.gpu, job.gpu.host],
    )

    object = object_file(ctx, source)

    # In this order the linker lays out device code as in a monolithic compile.
    if not job.needed:
        ctx.actions.symlink(output = object, target_file = compiled)
        cubins = {number: images["sm_" + number] for number in archs}
        return [fatbin, object], firsts, _relocatable(ctx, job, source, fatbin, cubins)
    whole = ctx.actions.declare_file(directory + "code.o")
    arguments = ctx.actions.args()
    arguments.add_all(["fallback", "--source", package_path(source), "--section", ctx.label.name])
    arguments.add_all(job.packing, before_each = "--fatbinary")
    arguments.add("--arch-list", arch_list)
    arguments.add_all(brought.packs, before_each = "--pack")
    read = headers_file(ctx, source)
    arguments.add_all("--read", tried + [read])
    arguments.add_all("--attempt", [compiled, fatbin])
    arguments.add_all("--out", [object, whole])
    arguments.add("--host", gencode(host[0]))
    for number, arch in archs.items():
        arguments.add_all("--device", [number, gencode(arch[0])])
    arguments.add_all([gencode(arch) for arch in job.archs], before_each = "--image")
    cubins = {}
    for number in archs if job.linking.relocatable else []:
        cubins[number] = ctx.actions.declare_file(directory + number + "/whole.cubin")
        arguments.add_all("--cubin", [number, images["sm_" + number], cubins[number]])
    _call(arguments, job, source, [], "object.o")
    attempts = [images["sm_" + number] for number in cubins]
    inputs = depset([compiled, fatbin] + tried + attempts, transitive = [headers])
    outputs = [object, whole, read] + cubins.values()
    _run(ctx, job, source, "CudaFallback", "Checking the code of", [arguments], inputs, outputs)
    return [whole, object], firsts + [object], _relocatable(ctx, job, source, whole, cubins)

def _read_texts(ctx, job, source, directory, archs, texts, stubs, later, firsts):
    """Reads each text of a source once: bitcode by the number of the architecture, and the host stub."""
    bitcodes = {}
    arguments = ctx.actions.args()
    arguments.add("spread")
    made = []
    for number, arch in archs.items():
        attempt = phase_file(ctx, source, "CudaDeviceFrontend", number)
        stub = ctx.actions.declare_file(directory + number + "/attempt.stub.c")
        files = {"code": texts[number]}
        later("device-frontend", "CudaDeviceFrontend", "Reading for sm_" + number, attempt, arch, files, stub)
        bitcodes[number] = ctx.actions.declare_file(directory + number + "/device.bc")
        arguments.add_all("--arch", [number, attempt, stub, bitcodes[number], stubs[number]])
        made += [attempt, stub]
    first = phase_file(ctx, source, "CudaDeviceShare")
    arguments.add("--stub", first)
    outputs = [first] + bitcodes.values() + stubs.values()
    _run(ctx, job, source, "CudaDeviceShare", "Sharing the bitcode of", [arguments], depset(made), outputs)
    firsts.append(first)
    return bitcodes, first
