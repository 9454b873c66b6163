"""The actions that compile one source file."""

load(":actions.bzl", "ACTION", "dirname", "package_path")

# C++ standard of sources that include no torch header: what nvcc 13 takes by default. It is the same for every torch
# version, so that their objects are too.
_CXX_STANDARD = 17

_DEFINES = {
    "cpu": ["-DCPU_KERNEL"],
    "cuda": ["-DCUDA_KERNEL", "-DUSE_CUDA=1", "-DENABLE_FP8"],
}

# nvcc's options in torch's own builds (COMMON_NVCC_FLAGS of torch.utils.cpp_extension), less the four that take
# away the operators of half types.
_NVCC_FLAGS = ["--expt-relaxed-constexpr", "--expt-extended-lambda"]

def _package_prefix_map(file):
    """Takes the way to the package out of `__FILE__`, so that it is the same in every workspace."""
    directory = file.path[:-len(package_path(file))]
    return ["-ffile-prefix-map=%s=" % directory] if directory else []

def _repository_prefix_map(file):
    """Likewise the way to an external repository, whose name differs between Bazel versions and root modules."""
    root = file.owner.workspace_root
    return ["-ffile-prefix-map=%s/=" % root] if root else []

def _sdks(job):
    """What headers come from besides the compilers' and the section's own, in the order of the search."""
    return job.libraries + ([job.torch] if job.torch else [])

def _prefix_maps(arguments, job, source, compiler, before_each = None):
    files = [compiler, job.registration]
    if job.cuda:
        files.append(job.cuda.nvcc)
    files += [sdk.include_markers[0] for sdk in _sdks(job)]
    arguments.add_all(files, map_each = _repository_prefix_map, before_each = before_each)
    arguments.add_all([source], map_each = _package_prefix_map, before_each = before_each)

def _common_flags(arguments, job):
    """Adds what host compiler and nvcc understand alike; optimised as a CMake release build is, as upstream does."""
    arguments.add_all(["-O3", "-DNDEBUG"])
    arguments.add("-std=c++%d" % (job.torch.cxx_standard if job.torch else _CXX_STANDARD))
    arguments.add_all(_DEFINES[job.backend])
    if job.cxx_abi != "none":
        arguments.add("-D_GLIBCXX_USE_CXX11_ABI=%d" % (1 if job.cxx_abi == "cxx11" else 0))
    arguments.add_all(job.target_version)
    arguments.add_all([job.registration], map_each = dirname, before_each = "-I")
    arguments.add_all(job.include_directories, before_each = "-I")
    for sdk in _sdks(job):
        arguments.add_all(sdk.include_markers, map_each = dirname, before_each = "-isystem")
    if job.id:
        arguments.add("-include", job.id.header)

def _inputs(job, source, sdk_files):
    direct = [source, job.registration] + job.headers
    if job.id:
        direct = direct + [job.id.header]
    return depset(direct, transitive = sdk_files + [sdk.headers for sdk in _sdks(job)])

def compile_cxx(ctx, job, source, object):
    """Compiles a C++ source with the host compiler.

    Args:
        ctx: rule context.
        job: struct of what all sources of a target have in common; see kernel_objects.bzl.
        source: File to compile.
        object: File to make.
    """
    arguments = ctx.actions.args()
    arguments.add("clang")
    arguments.add_all(job.cc.flags)
    arguments.add_all(job.cc.include_markers, map_each = dirname, before_each = "-isystem")
    arguments.add_all(["-fPIC", "-fvisibility=hidden"])
    _common_flags(arguments, job)
    if job.cuda:
        arguments.add_all([job.cuda.include_marker], map_each = dirname, before_each = "-isystem")
    _prefix_maps(arguments, job, source, job.cc.compiler)
    arguments.add_all(job.cxx_flags)
    arguments.add("-c", source)
    arguments.add("-o", object)
    ctx.actions.run(
        executable = job.cc.compiler,
        arguments = [arguments],
        inputs = _inputs(job, source, [job.cc.files] + ([job.cuda.headers] if job.cuda else [])),
        outputs = [object],
        mnemonic = "KernelCxxCompile",
        progress_message = "Compiling %s for %%{label}" % package_path(source),
        toolchain = Label("//toolchains/cc:toolchain_type"),
        **ACTION
    )

def _gencode(arch):
    """The nvcc option for a capability: `9.0` gives SASS, `9.0+PTX` gives PTX too."""
    number = arch.removesuffix("+PTX").replace(".", "")
    targets = "sm_" + number
    if arch.endswith("+PTX"):
        targets = "[%s,compute_%s]" % (targets, number)
    return "-gencode=arch=compute_%s,code=%s" % (number, targets)

def compile_cuda(ctx, job, source, object):
    """Compiles a CUDA source with nvcc, for all capabilities of the cell.

    Args:
        ctx: rule context.
        job: struct of what all sources of a target have in common; see kernel_objects.bzl.
        source: File to compile.
        object: File to make.
    """
    arguments = ctx.actions.args()
    arguments.add("nvcc")
    arguments.add("--source", package_path(source))
    arguments.add("--")
    arguments.add(job.cuda.nvcc)
    arguments.add("-ccbin", job.cuda.host.launcher)
    arguments.add("--objdir-as-tempdir")
    if job.cuda.random_seed:
        arguments.add("-frandom-seed=" + package_path(source))
    arguments.add_all(_NVCC_FLAGS)
    arguments.add_all([_gencode(arch) for arch in job.archs])
    arguments.add_all(["-fPIC", "-fvisibility=hidden"], before_each = "-Xcompiler")
    _prefix_maps(arguments, job, source, job.cuda.host.compiler, before_each = "-Xcompiler")
    _common_flags(arguments, job)
    arguments.add_all(job.cuda_flags)
    arguments.add("-c", source)
    arguments.add("-o", object)
    ctx.actions.run(
        executable = ctx.executable._step,
        arguments = [arguments],
        inputs = _inputs(job, source, [job.cuda.files]),
        tools = [job.cuda.host.compiler, job.cuda.host.launcher, job.cuda.nvcc],
        outputs = [object],
        mnemonic = "KernelCudaCompile",
        progress_message = "Compiling %s for %%{label} with nvcc" % package_path(source),
        toolchain = Label("//toolchains/cuda:toolchain_type"),
        **ACTION
    )
