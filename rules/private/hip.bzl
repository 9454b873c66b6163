"""The actions that compile one HIP source: clang's own phases, each with public options.

The host and each architecture are preprocessed and compiled separately, so that a further architecture is compiled
alone, and sources with equal preprocessed text are compiled once. The code objects of all architectures become one
bundle, an object of its own, which the host code registers with the runtime.
"""

load(":actions.bzl", "dirname", "package_path")
load(
    ":compile.bzl",
    "NO_DIRECTORY",
    "add_source",
    "confined",
    "guarded",
    "id_header",
    "language_flags",
    "packed_inputs",
    "prefix_maps",
    "preprocessor_flags",
    "without_definitions",
)
load(":phase.bzl", "object_file", "phase_file", "run_phase")

# Any architecture: clang requires one, even for the host's phases.
_NO_ARCH = "gfx906"

# Compiler flags that the assembler needs too.
_ASSEMBLER_FLAGS = ["-mwavefrontsize64", "-mno-wavefrontsize64"]

# CUDA's host code has `max` and `min` for all numbers; clang's wrapper for HIP defines them on request. Without these
# macros, `max` of two doubles or two 64-bit integers is `max(int, int)`.
_HOST_MIN_MAX = ["-D__HIP_DEFINE_EXTENDED_HOST_MIN_MAX__=1", "-D__HIP_DEFINE_MIXED_HOST_MIN_MAX__=1"]

def compile_hip(ctx, job, source):
    """Compiles a HIP source for all architectures of the variant.

    Args:
        ctx: rule context.
        job: struct of what all sources of a target have in common; see kernel_objects.bzl.
        source: File, the source as it stands in the project.

    Returns:
        list of File, the objects to link; list of File, the first output of each action; None, since no device code is
        linked.
    """
    rocm = job.gpu
    path = package_path(source)
    common = ctx.actions.args()
    common.add("clang")
    common.add_all(rocm.flags)
    common.add_all(["-x", "hip", "-nogpuinc", "-fPIC", "-fvisibility=hidden"])
    common.add_all(language_flags(job))

    # Both compilers, the host's and the GPU's, get options that only one of them uses.
    common.add("-Wno-unused-command-line-argument")

    # It makes internal symbols and the bundle's symbols unique; clang's default is a hash of the path and the options.
    cuid = "%s:%s" % (ctx.label.name, path)
    common.add("-cuid=" + cuid)
    find = ctx.actions.args()
    prefix_maps(find, job, source, rocm.compiler)
    find.add_all(rocm.includes, before_each = "-isystem")
    find.add("-isystem", rocm.include)
    find.add_all(["-nogpulib", "-include", "__clang_hip_runtime_wrapper.h"])
    find.add_all(_HOST_MIN_MAX if source.extension == "cu" else [])
    preprocessor_flags(find, job, None, id_header(job))
    find.add_all(job.hip_flags)
    find.add("-E")
    add_source(find, job, source)
    later = ctx.actions.args()
    later.add_all(without_definitions(job.hip_flags))
    later.add_all(["-Wno-gnu-line-marker", NO_DIRECTORY])
    brought = packed_inputs(job, source, [rocm, rocm.system], id_header(job))
    guard, first = guarded(ctx, rocm.compiler, brought)
    program, alone = confined(ctx, rocm.compiler)
    firsts = []
    object = object_file(ctx, source)

    def run(mnemonic, what, inputs, arguments, options, arch = None, output = None, program = program):
        output = output or phase_file(ctx, source, mnemonic, arch)
        own = ctx.actions.args()
        own.add_all(options)
        own.add("-o", output)
        run_phase(ctx, job, source, job.backend.toolchain, mnemonic, what, arguments + [own], inputs, [output], program)
        firsts.append(output)
        return output

    def preprocess(what, options, arch = None):
        return run("HipPreprocess", what, brought.inputs, [first, common, find], options, arch, program = guard)

    codes = {}
    for arch in job.archs:
        for_arch = ["--offload-device-only", "--offload-arch=" + arch]
        place = arch.replace(":", "_").replace("+", "p").replace("-", "m")
        text = preprocess("Preprocessing for " + arch, for_arch, place)
        libraries = ctx.actions.args()
        libraries.add_all(rocm.bitcode[:1], map_each = dirname, format_each = "--rocm-device-lib-path=%s")
        libraries.add("-S", text)
        inputs = [text] + rocm.bitcode
        arguments = [alone, common, later, libraries]
        assembly = run("HipDeviceCompile", "Compiling for " + arch, inputs, arguments, for_arch, place)
        assemble = ["clang", "--target=amdgcn-amd-amdhsa", "-mcpu=" + arch]
        assemble += [flag for flag in job.hip_flags if flag in _ASSEMBLER_FLAGS] + ["-x", "assembler", "-c", assembly]
        machine_code = run("HipAssemble", "Assembling for " + arch, [assembly], [alone], assemble, place)
        link = ["ld.lld", "-m", "elf64_amdgpu", "--no-undefined", "-shared", "--strip-debug", machine_code]
        codes[arch] = run("HipLink", "Linking for " + arch, [machine_code], [alone], link, place)
    bundle = phase_file(ctx, source, "HipBundle")
    arguments = ctx.actions.args()
    arguments.add_all(["hip-bundle", "--cuid", cuid])
    arguments.add("--out", bundle)
    for arch, code in codes.items():
        arguments.add_all(["--code", arch, code])
    program = {"executable": ctx.executable._compile}
    what = "Bundling the code of"
    run_phase(ctx, job, source, job.backend.toolchain, "HipBundle", what, [arguments], codes.values(), [bundle], program)
    firsts.append(bundle)
    for_host = ["--offload-host-only", "--offload-arch=" + _NO_ARCH]
    host_text = preprocess("Preprocessing", for_host)
    compile = ctx.actions.args()
    compile.add("-c", host_text)
    arguments = [alone, common, later, compile]
    run("HipHostCompile", "Compiling the host code of", [host_text], arguments, for_host, output = object)
    return [bundle, object], firsts, None
