"""kernel_objects: the compiled sources of one section of build.toml."""

load("@torch_kernels_toolchains//:libraries.bzl", "LIBRARIES")
load("//rules/settings:setting.bzl", "CellSettingInfo")
load("//toolchains/cutlass:sdk.bzl", "CutlassSdkInfo")
load(":actions.bzl", "package_path")
load(":compile.bzl", "compile_cxx")
load(":cuda.bzl", "compile_monolithic", "compile_split", "flag_to_link", "is_split", "without_threads")
load(":errors.bzl", "fail_with")
load(":hip.bzl", "compile_hip")
load(":hipify.bzl", "hipify")
load(":providers.bzl", "KernelIdInfo", "KernelObjectsInfo")
load(":stable_abi.bzl", "target_version")
load(":transitions.bzl", "GPU_BACKENDS", "NONE", "objects_transition")

_CC = "//toolchains/cc:toolchain_type"
_CUDA = "//toolchains/cuda:toolchain_type"
_TORCH = "//toolchains/torch:toolchain_type"
_ROCM = "//toolchains/rocm:toolchain_type"
_BACKENDS = ["cpu"] + GPU_BACKENDS
_DEVICE = {"cu": "CUDA", "hip": "HIP"}
_DEPENDS = ["torch"] + LIBRARIES.keys()

def _libraries(depends):
    """The targets of what a section depends on besides torch; only those are ever fetched."""
    return [LIBRARIES[name] for name in depends if name in LIBRARIES]

def _sdk(ctx, toolchain_type, attribute, wanted, what):
    """The SDK that toolchain resolution chose, or an error that says what to do."""
    if wanted == NONE or (attribute == "backend" and wanted in _BACKENDS):
        fail_with(
            ctx.label,
            attribute,
            "the variant that links this group names no %s version" % what,
            "link it into a variant that does, e.g. `torch213-cxx11-cu130-x86_64-linux`",
        )
    toolchain = ctx.toolchains[toolchain_type]
    if not toolchain:
        fail_with(
            ctx.label,
            attribute,
            "no %s SDK for `%s`" % (what, wanted),
            "declare it in toolchains/matrix.toml and lock it, or choose another variant",
        )
    return toolchain.sdk

def _include_directories(ctx):
    """The include directories of the project: strings, since path mapping never changes where source files are."""
    directories = {}
    for file in ctx.files.srcs + ctx.files.hdrs:
        path = package_path(file)
        root = file.path[:-len(path)]
        parts = path.split("/")
        for depth in range(len(parts)):
            directory = "/".join(parts[:depth])
            directories.setdefault(directory or ".", (root + directory).removesuffix("/") or ".")
        if ctx.attr.includes and not file.is_source:
            fail_with(ctx.label, "includes", "`%s` is generated" % path, "include it by its path from the package")
    for include in ctx.attr.includes:
        if include.removesuffix("/") not in directories:
            fail_with(ctx.label, "includes", "no listed file is below `%s`" % include, "list its headers in `hdrs`")
    return [directories[include.removesuffix("/")] for include in ctx.attr.includes]

def _compile(ctx, job, source):
    """Compiles a source: the objects to link, and the first output of each action."""
    object = ctx.actions.declare_file("%s.objects/%s.o" % (ctx.label.name, package_path(source)))
    if source.extension not in _DEVICE:
        return compile_cxx(ctx, job, source, object)
    if job.rocm:
        return compile_hip(ctx, job, source, object)
    if job.cuda and source.extension == "cu":
        compile_cuda = compile_split if is_split(job) else compile_monolithic
        return compile_cuda(ctx, job, source, object)
    language = _DEVICE[source.extension]
    backends = "\"rocm\"" if source.extension == "hip" else "\"cuda\" or \"rocm\""
    return fail_with(ctx.label, "srcs", "`%s` is %s" % (source.short_path, language), "set backend = " + backends)

def _kernel_objects_impl(ctx):
    for name in ctx.attr.depends:
        if name not in _DEPENDS:
            fail_with(ctx.label, "depends", "no such dependency: `%s`" % name, "choose from " + ", ".join(_DEPENDS))
    if ctx.attr.backend not in _BACKENDS:
        fail_with(ctx.label, "backend", "unknown: `%s`" % ctx.attr.backend, "choose from " + ", ".join(_BACKENDS))
    for attribute, flags in [("cuda_flags", ctx.attr.cuda_flags), ("hip_flags", ctx.attr.hip_flags)]:
        flag = flag_to_link(flags)
        if flag:
            problem = "`%s` asks for relocatable device code, which the rules do not link" % flag
            fail_with(ctx.label, attribute, problem, "define what a kernel calls in its own file, or in a header")
    backend = ctx.attr._backend[CellSettingInfo].value
    if backend == NONE:
        # Built by its own name, outside of any cell (`bazel build //...`), there is nothing to compile it for.
        return [KernelObjectsInfo(backend = ctx.attr.backend, objects = [], steps = [])]
    cuda = _sdk(ctx, _CUDA, "backend", backend, "CUDA") if ctx.attr.backend == "cuda" else None
    rocm = _sdk(ctx, _ROCM, "backend", backend, "ROCm") if ctx.attr.backend == "rocm" else None
    torch_version = ctx.attr._torch[CellSettingInfo].value
    torch = _sdk(ctx, _TORCH, "depends", torch_version, "torch") if "torch" in ctx.attr.depends else None
    if (cuda or rocm) and not ctx.attr.archs.get(backend) and any([f.extension in _DEVICE for f in ctx.files.srcs]):
        example = "gfx942" if rocm else "8.0"
        fail_with(ctx.label, "archs", "no architectures for `%s`" % backend, "name at least one, e.g. \"%s\"" % example)
    stable_abi = ctx.attr._stable_abi[CellSettingInfo].value
    includes = _include_directories(ctx)
    hipified, report = hipify(ctx, rocm.hipify, torch.hipify if torch else rocm.hipify.module) if rocm else (None, None)
    job = struct(
        archs = ctx.attr.archs.get(backend, []),
        backend = ctx.attr.backend,
        cc = ctx.toolchains[_CC].sdk,
        cuda = cuda,
        cuda_compile = ctx.attr.cuda_compile or ctx.attr._cuda_compile[CellSettingInfo].value,
        cuda_flags = without_threads(ctx.attr.cuda_flags),
        cxx_abi = ctx.attr._cxx_abi[CellSettingInfo].value,
        cxx_flags = ctx.attr.cxx_flags,
        headers = ctx.files.hdrs,
        hip_flags = ctx.attr.hip_flags,
        hipified = hipified,
        id = ctx.attr.id[KernelIdInfo] if ctx.attr.id else None,
        includes = ctx.attr.includes if rocm else includes,
        own_arch_list = ctx.attr.own_arch_list,
        libraries = [library[CutlassSdkInfo] for library in ctx.attr._libraries],
        ptx_sharing = ctx.attr.ptx_sharing or ctx.attr._ptx_sharing[CellSettingInfo].value,
        registration = ctx.file._registration,
        rocm = rocm,
        target_version = [] if stable_abi == NONE else [target_version(ctx.label, stable_abi)],
        torch = torch,
    )
    objects = []
    steps = []
    for source in ctx.files.srcs:
        made, ran = _compile(ctx, job, source)
        objects += made
        steps += ran
    return [
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(hipify = depset([report] if report else [])),
        KernelObjectsInfo(backend = ctx.attr.backend, objects = objects, steps = steps),
    ]

kernel_objects = rule(
    implementation = _kernel_objects_impl,
    cfg = objects_transition,
    attrs = {
        "archs": attr.string_list_dict(
            doc = "For each backend what to compile for: of `cu130` `8.0`, `9.0a`, `10.0+PTX`, of `rocm72` `gfx90a`, `gfx942`.",
        ),
        "backend": attr.string(
            mandatory = True,
            doc = "`cpu`, `cuda` or `rocm`.",
        ),
        "cuda_compile": attr.string(
            values = ["", "split", "monolithic"],
            doc = "Whether each phase of nvcc is an action of its own. Empty: as `//rules/settings:cuda_compile` says.",
        ),
        "cuda_flags": attr.string_list(
            doc = "Further options of nvcc, for `.cu` files.",
        ),
        "cxx_flags": attr.string_list(
            doc = "Further options of the host compiler, for C++ files.",
        ),
        "depends": attr.string_list(
            doc = "What the sources include: `torch`, `cutlass_3_6`, ... Without torch all its versions of one C++ ABI share the objects.",
        ),
        "hdrs": attr.label_list(
            allow_files = [".h", ".hpp", ".hh", ".cuh", ".inl", ".inc"],
            doc = "Headers that the sources include.",
        ),
        "hip_flags": attr.string_list(
            doc = "Further options of clang, for `.cu` and `.hip` files that are compiled as HIP.",
        ),
        "id": attr.label(
            providers = [KernelIdInfo],
            doc = "A kernel_id, for sources that need TORCH_EXTENSION_NAME.",
        ),
        "includes": attr.string_list(
            doc = "Include directories, relative to the package.",
        ),
        "own_arch_list": attr.bool(
            doc = "Whether `__CUDA_ARCH_LIST__`, if split, has the target's capabilities only, not all that nvcc knows.",
        ),
        "ptx_sharing": attr.string(
            values = ["", "off", "on", "check"],
            doc = "Whether archs of one major number with equal text share their PTX. Empty: as `//rules/settings:ptx_sharing` says.",
        ),
        "srcs": attr.label_list(
            allow_files = [".cu", ".hip", ".cpp", ".cc", ".cxx"],
            mandatory = True,
            doc = "Sources; each becomes one object. With `rocm` they are rewritten by hipify first, but for `.hip` files.",
        ),
        "_backend": attr.label(default = "//rules/settings:backend"),
        "_compile": attr.label(
            default = "//rules/private/tools:compile",
            executable = True,
            cfg = "exec",
        ),
        "_cuda_compile": attr.label(default = "//rules/settings:cuda_compile"),
        "_cxx_abi": attr.label(default = "//rules/settings:cxx_abi"),
        "_libraries": attr.label_list(default = _libraries, providers = [CutlassSdkInfo]),
        "_ptx_sharing": attr.label(default = "//rules/settings:ptx_sharing"),
        "_registration": attr.label(
            default = "//rules/private/include:registration.h",
            allow_single_file = True,
        ),
        "_stable_abi": attr.label(default = "//rules/settings:stable_abi"),
        "_torch": attr.label(default = "//rules/settings:torch"),
    },
    provides = [KernelObjectsInfo],
    toolchains = [
        config_common.toolchain_type(_CC, mandatory = True),
        config_common.toolchain_type(_CUDA, mandatory = False),
        config_common.toolchain_type(_ROCM, mandatory = False),
        config_common.toolchain_type(_TORCH, mandatory = False),
    ],
    doc = "Objects of one section of build.toml, compiled for the variant that asks for them.",
)
