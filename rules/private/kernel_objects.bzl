"""kernel_objects: the compiled sources of one section of build.toml."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@torch_kernels_toolchains//:libraries.bzl", "GCC", "GCC_IF_CHOSEN", "LIBRARIES")
load("//rules/facts:backends.bzl", "CXX_EXTENSIONS", "OTHER_LANGUAGES")
load("//rules/facts:flags.bzl", "HIP_RELOCATABLE")
load("//rules/facts:settings.bzl", "FLAGS", "NONE")
load("//toolchains/gcc:sdk.bzl", "GccSdkInfo")
load("//toolchains/library:sdk.bzl", "LibrarySdkInfo")
load(":actions.bzl", "package_path")
load(":archs.bzl", "check_archs")
load(":attrs.bzl", "include", "tool")
load(":backends.bzl", "BACKENDS", "CC", "LANGUAGES", "TOOLCHAINS", "TORCH", "find_sdk")
load(":compile.bzl", "compile_cxx")
load(":compression.bzl", "compression")
load(":cuda.bzl", "without_threads")
load(":errors.bzl", "check_paths", "fail_with")
load(":linking.bzl", "linking_of")
load(":openmp.bzl", "asks_for_openmp", "gpu_openmp")
load(":providers.bzl", "KernelIdInfo", "KernelObjectsInfo", "PrecompiledHeaderInfo", "no_objects")
load(":sources.bzl", "bare_sources", "include_directories")
load(":stable_abi.bzl", "target_version")
load(":transitions.bzl", "more_flags", "objects_transition")

# OpenMP's header, for sources that include it without enabling OpenMP: gcc, which has the header, compiles their C++;
# other sources get the header alone.
_OPENMP = "openmp"

# Headers that bind functions as pybind11's do, without Python. They need torch's headers.
_PYBIND = "pybind"

# The headers of the variant's Python, which pybind11's own headers need.
_CPYTHON = "cpython"

_DEPENDS = ["torch", _OPENMP, _PYBIND] + LIBRARIES.keys()

def _libraries(depends):
    """The targets of a section's dependencies besides torch; Bazel fetches no others."""
    return [LIBRARIES[name] for name in depends if name in LIBRARIES]

def _needs_gcc(cxx_flags, depends):
    """Whether gcc compiles the C++ of a section regardless of the settings."""
    return asks_for_openmp(cxx_flags) or _OPENMP in depends

def _gcc(cxx_flags, depends):
    """The target of gcc if C++ uses OpenMP or `//rules/settings:cxx` chooses gcc; Bazel fetches it only then."""
    return GCC if _needs_gcc(cxx_flags, depends) else GCC_IF_CHOSEN

# Separate from `_gcc`: Bazel computes a default for each combination of the attributes' `select` branches, at most 64.
def _gpu_gcc(cuda_flags, hip_flags):
    """The target of gcc if host code of GPU sources uses OpenMP."""
    return GCC if gpu_openmp(cuda_flags, hip_flags).asked else None

def _precompiled(precompiled, depends):
    """The target of the precompiled header, if a section asks for it and it fits."""
    return Label("//rules/private/include:precompiled") if precompiled and _PYBIND in depends else None

def _sdk(ctx, toolchain_type, attribute, wanted, title):
    """The SDK that a section asks for, or an error if the variant names no release of it."""
    if wanted == NONE or (attribute == "backend" and wanted in BACKENDS):
        fail_with(
            ctx.label,
            attribute,
            "the variant that links this group names no %s version" % title,
            "link it into a variant that does, e.g. `torch213-cxx11-cu130-x86_64-linux`",
        )
    return find_sdk(ctx, toolchain_type, attribute, wanted, title)

def _include_directories(ctx):
    """The include directories of the project, by their paths from the root of the sources."""
    found = {}
    for include, directories in include_directories(ctx, ctx.attr.includes).items():
        if not directories:
            fail_with(ctx.label, "includes", "no listed file is below `%s`" % include, "list its headers in `hdrs`")
        found.update({directory: None for directory in directories})
    return found.keys()

def _check_sources(ctx):
    """Fails if there is nothing to compile, or two sources would have one object."""
    if not ctx.files.srcs:
        fail_with(ctx.label, "srcs", "no source: the target has nothing to compile", "name at least one file")
    check_paths(ctx.label, "srcs", ctx.files.srcs, "rename one, or compile it in a target of its own")

def _compile(ctx, job, source):
    """Compiles a source: see `compile_cuda`."""
    if source.extension not in LANGUAGES:
        return compile_cxx(ctx, job, source) + (None,)
    if source.extension in job.backend.languages:
        return job.backend.compile(ctx, job, source)
    fitting = ["\"%s\"" % name for name, backend in BACKENDS.items() if source.extension in backend.languages]
    problem = "`%s` is %s" % (source.short_path, LANGUAGES[source.extension])
    return fail_with(ctx.label, "srcs", problem, "set backend = " + " or ".join(fitting))

def _check_cpython(ctx):
    """Fails if the sources depend on contradictory Python headers."""
    if _CPYTHON not in ctx.attr.depends:
        return
    for name in [_PYBIND, "python"]:
        if name in ctx.attr.depends:
            fail_with(ctx.label, "depends", "`%s` and `%s`: headers for one Python and for all" % (_CPYTHON, name), "remove one")

def _check_chosen_python(ctx):
    """Fails if the sources need a Python's headers and the variant names no Python, or an unknown one."""
    if any([library[LibrarySdkInfo].name == NONE for library in ctx.attr._libraries]):
        version = ctx.attr._python[BuildSettingInfo].value
        problem = "no headers of Python `%s`" % version if version != NONE else "the variant that links this group names no Python"
        fail_with(ctx.label, "depends", problem, "set `python_version` of the variant, e.g. `3.13`")

def _packing(ctx, backend, gpu, linking):
    """fatbinary's options; empty for code that nvlink optimises, for which they are untested."""
    has_code = backend.flags == "cuda_flags" and any([f.extension in backend.languages for f in ctx.files.srcs])
    if not has_code or linking.optimized:
        return []
    return compression(ctx.label, gpu, ctx.attr._compress[BuildSettingInfo].value, linking.flags)

def _kernel_objects_impl(ctx):
    for name in ctx.attr.depends:
        if name not in _DEPENDS:
            fail_with(ctx.label, "depends", "no such dependency: `%s`" % name, "choose from " + ", ".join(_DEPENDS))
    if ctx.attr.backend not in BACKENDS:
        fail_with(ctx.label, "backend", "unknown: `%s`" % ctx.attr.backend, "choose from " + ", ".join(BACKENDS))
    if HIP_RELOCATABLE in ctx.attr.hip_flags:
        problem = "`%s` asks for relocatable device code, which the rules link for CUDA alone" % HIP_RELOCATABLE
        fail_with(ctx.label, "hip_flags", problem, "define what a kernel calls in its own file, or in a header")
    if _PYBIND in ctx.attr.depends and "torch" not in ctx.attr.depends:
        fail_with(ctx.label, "depends", "`pybind` without `torch`: functions are bound as ops of torch", "add `torch`")
    _check_cpython(ctx)
    _check_sources(ctx)
    backend = BACKENDS[ctx.attr.backend]
    release = ctx.attr._backend[BuildSettingInfo].value
    if release == NONE:
        # A target that is built outside of any variant (`bazel build //...`) has no configuration to compile for.
        return [no_objects(ctx.attr.backend)]
    _check_chosen_python(ctx)
    gpu = _sdk(ctx, backend.toolchain, "backend", release, backend.title) if backend.toolchain else None
    torch_version = ctx.attr._torch[BuildSettingInfo].value
    torch = _sdk(ctx, TORCH, "depends", torch_version, "torch") if "torch" in ctx.attr.depends else None
    if gpu and not ctx.attr.archs.get(release) and any([f.extension in LANGUAGES for f in ctx.files.srcs]):
        help = "name at least one, e.g. \"%s\"" % backend.example
        fail_with(ctx.label, "archs", "no architectures for `%s`" % release, help)
    if gpu:
        check_archs(ctx.label, ctx.attr.backend, ctx.attr.archs.get(release, []), backend, getattr(gpu, "archs", []))
    for source in ctx.files.srcs:
        if source.extension == "c" and asks_for_openmp(ctx.attr.cxx_flags):
            problem = "`%s` is C: the rules support OpenMP in C++ alone" % source.short_path
            fail_with(ctx.label, "srcs", problem, "compile it in a target without OpenMP, or as C++")
    stable_abi = ctx.attr._stable_abi[BuildSettingInfo].value
    includes = _include_directories(ctx)
    sources = bare_sources(ctx, not backend.rewrite)
    hipified, report = backend.rewrite(ctx, gpu, torch, sources) if backend.rewrite else (None, None)
    compilers = [target[GccSdkInfo] for target in (ctx.attr._gcc, ctx.attr._gpu_gcc) if target and GccSdkInfo in target]
    gcc = compilers[0] if compilers else None
    of_gpu = gpu_openmp(ctx.attr.cuda_flags, ctx.attr.hip_flags)
    openmp = [gcc.openmp_header] if _OPENMP in ctx.attr.depends or of_gpu.asked else []
    by_gcc = _needs_gcc(ctx.attr.cxx_flags, ctx.attr.depends) or ctx.attr._cxx[BuildSettingInfo].value == "gcc"
    wants_needed = (ctx.attr.headers or ctx.attr._headers[BuildSettingInfo].value) == "needed"
    cpython = _CPYTHON in ctx.attr.depends
    more = more_flags(ctx.attr._more_flags[BuildSettingInfo].value, ctx.label.name)
    linking = linking_of(without_threads(ctx.attr.cuda_flags) + of_gpu.cuda + (more if backend.flags == "cuda_flags" else []))
    job = struct(
        archs = ctx.attr.archs.get(release, []),
        binding = struct(
            headers = ctx.files._binding,
            marker = ctx.file._binding_marker,
        ) if _PYBIND in ctx.attr.depends else None,
        backend = backend,
        cc = ctx.toolchains[CC].sdk,
        cuda_compile = ctx.attr.cuda_compile or ctx.attr._cuda_compile[BuildSettingInfo].value,
        cuda_flags = linking.flags,
        cxx_abi = ctx.attr._cxx_abi[BuildSettingInfo].value,
        cxx_flags = ctx.attr.cxx_flags + more,
        gcc = gcc if by_gcc else None,
        gpu = gpu,
        headers = [sources[file] for file in ctx.files.hdrs],
        hip_flags = ctx.attr.hip_flags + of_gpu.hip + (more if backend.flags == "hip_flags" else []),
        hipified = hipified,
        id = ctx.attr.id[KernelIdInfo] if ctx.attr.id else None,
        includes = ctx.attr.includes if hipified else includes,
        # torch's headers for one Python may use any other header of torch.
        needed = torch.needed if torch and wants_needed and stable_abi == NONE and not hipified and not cpython else None,
        pybind_defines = torch.pybind_defines if torch and cpython else [],
        own_arch_list = ctx.attr.own_arch_list,
        precompiled = ctx.attr._precompiled[PrecompiledHeaderInfo] if ctx.attr._precompiled else None,
        packing = _packing(ctx, backend, gpu, linking),
        libraries = [library[LibrarySdkInfo] for library in ctx.attr._libraries] + openmp,
        linking = linking,
        registration = ctx.file._registration,
        sources = sources,
        templates = any([name.startswith("cutlass") for name in ctx.attr.depends]),
        target_version = [] if stable_abi == NONE else [target_version(ctx.label, stable_abi)],
        torch = torch,
    )
    objects = []
    device = []
    undivided = []
    compiled = []
    steps = []
    relocatable = []
    for source in ctx.files.srcs:
        made, ran, code = _compile(ctx, job, source)
        objects += made
        compiled += [package_path(source)] * len(made)

        # An object of device code alone stands before the host code.
        device += made[:-1]
        if source.extension in LANGUAGES and len(made) == 1 and not code:
            undivided.append(package_path(source))
        steps += ran
        relocatable += [code] if code else []
    return [
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(hipify = depset([report] if report else [])),
        KernelObjectsInfo(
            archives = [],
            backend = ctx.attr.backend,
            device = device,
            id = ctx.attr.id.label if ctx.attr.id else None,
            linked = [],
            objects = objects,
            openmp = gcc,
            openmp_by_clang = of_gpu.asked,
            relocatable = relocatable,
            sources = compiled,
            steps = steps,
            texts = sources.values(),
            undivided = undivided,
        ),
    ]

kernel_objects = rule(
    implementation = _kernel_objects_impl,
    cfg = objects_transition,
    attrs = {
        "archs": attr.string_list_dict(
            doc = "The architectures to compile for, by backend: `8.0`, `9.0a`, `10.0+PTX` for `cu130`, `gfx90a`, `gfx942` for `rocm72`.",
        ),
        "backend": attr.string(
            mandatory = True,
            doc = "`cpu`, `cuda` or `rocm`.",
        ),
        "cuda_compile": attr.string(
            values = [""] + FLAGS["cuda_compile"]["values"],
            doc = "Whether each phase of nvcc is an action of its own. Default: the value of `//rules/settings:cuda_compile`.",
        ),
        "cuda_flags": attr.string_list(
            doc = "Further options of nvcc, for `.cu` files.",
        ),
        "cxx_flags": attr.string_list(
            doc = "Further options of the host compiler, for C++ files.",
        ),
        "depends": attr.string_list(
            doc = "What the sources include: `torch`, `pybind`, `python`, `openmp`, `cutlass_3_6`, ... `cpython` adds the headers of the variant's Python, and pybind11's among torch's. `pybind` replaces pybind11's headers by our headers, which bind functions without Python. Without `torch`, all versions of torch with the same C++ ABI share the objects.",
        ),
        "hdrs": attr.label_list(
            allow_files = True,
            doc = "Headers, and other files that the sources include.",
        ),
        "headers": attr.string(
            values = [""] + FLAGS["headers"]["values"],
            doc = "Which of torch's headers are read: the headers that the sources need, or all. Default: the value of `//rules/settings:headers`.",
        ),
        "hip_flags": attr.string_list(
            doc = "Further options of clang, for `.cu` and `.hip` files that are compiled as HIP.",
        ),
        "id": attr.label(
            providers = [KernelIdInfo],
            doc = "A kernel_id, for sources that need TORCH_EXTENSION_NAME.",
        ),
        "includes": attr.string_list(
            doc = "Include directories, relative to the package, such as `csrc` or `../other/include`; `include` is also looked up in the other packages of listed files.",
        ),
        "own_arch_list": attr.bool(
            doc = "Whether `__CUDA_ARCH_LIST__`, if split, lists the target's capabilities only, not all of nvcc's.",
        ),
        "precompiled": attr.bool(
            doc = "Whether C++ sources that include torch/extension.h first, and bind with `pybind`, are compiled with a precompiled header of it. Their objects are the same. The header takes 100 MB, and for a single source more time than it saves.",
        ),
        "srcs": attr.label_list(
            allow_files = ["." + extension for extension in list(LANGUAGES) + CXX_EXTENSIONS + list(OTHER_LANGUAGES)],
            mandatory = True,
            doc = "Sources; each becomes one object. C and assembly get `cxx_flags` too, except `-std`. With `rocm`, hipify first rewrites all files except `.hip` files.",
        ),
        "_backend": attr.label(default = "//rules/settings:backend"),
        "_binding": attr.label_list(default = [Label("//rules/private/include:pybind")]),
        "_binding_marker": include("pybind/Python.h"),
        "_compile": tool("compile"),
        "_compress": attr.label(default = "//rules/settings:compress"),
        "_cuda_compile": attr.label(default = "//rules/settings:cuda_compile"),
        "_cxx": attr.label(default = "//rules/settings:cxx"),
        "_cxx_abi": attr.label(default = "//rules/settings:cxx_abi"),
        "_extension_name": include("extension_name.h"),
        "_gcc": attr.label(default = _gcc),
        "_gcc_step": tool("gcc"),
        "_gpu_gcc": attr.label(default = _gpu_gcc),
        "_headers": attr.label(default = "//rules/settings:headers"),
        "_libraries": attr.label_list(default = _libraries, providers = [LibrarySdkInfo]),
        "_more_flags": attr.label(default = "//rules/settings:more_flags"),
        "_precompiled": attr.label(default = _precompiled, providers = [PrecompiledHeaderInfo]),
        "_python": attr.label(default = "//rules/settings:python"),
        "_registration": include("registration.h"),
        "_stable_abi": attr.label(default = "//rules/settings:stable_abi"),
        "_torch": attr.label(default = "//rules/settings:torch"),
    },
    provides = [KernelObjectsInfo],
    toolchains = TOOLCHAINS,
    doc = "Objects of one section of build.toml, compiled for the variant that depends on them.",
)
