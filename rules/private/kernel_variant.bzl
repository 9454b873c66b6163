"""kernel_variant: one variant, linked, in the layout that the `kernels` client loads."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@torch_kernels_toolchains//:libraries.bzl", "CPYTHON_SYMBOLS", "TVM_FFI")
load("//rules/facts:settings.bzl", "CXX_ABIS", "FLAGS")
load("//toolchains:gpus.bzl", "gpu_of")
load("//toolchains/cc:flags.bzl", "CPU")
load(":actions.bzl", "ACTION")
load(":attrs.bzl", "include", "tool")
load(":backends.bzl", "TOOLCHAINS")
load(":check.bzl", "check_extension")
load(":cuda.bzl", "arch_number")
load(":errors.bzl", "fail_with")
load(":json_text.bzl", "json_with")
load(":link.bzl", "link_extension")
load(":providers.bzl", "KernelIdInfo", "KernelObjectsInfo", "KernelTritonInfo", "KernelVariantInfo")
load(":python_root.bzl", "below_root", "python_root")
load(":transitions.bzl", "cell_transition")
load(":variant_attributes.bzl", "check_variant")
load(":version.bzl", "VERSION")

_GENERATED = ["_ops.py", "metadata.json"]
_AHEAD = "_aot/"

def _tvm_ffi_link(tvm_ffi):
    """The libraries of tvm-ffi, for a variant that is bound with it; Bazel fetches them only then."""
    return [TVM_FFI[tvm_ffi]] if tvm_ffi in TVM_FFI else []

def _cpython_symbols(python_version):
    """The symbols of a variant's Python; Bazel fetches them only for a variant with a Python."""
    return [CPYTHON_SYMBOLS] if python_version else []

def _binding_objects(binding):
    """The objects that the headers of a binding call."""
    return Label("//rules/private/include:binding") if binding else None

def _python_names(ctx):
    """The path in the variant directory of each Python file."""
    names = {}
    for file in ctx.files.python:
        name = below_root(ctx, "python", file)
        if name in names:
            problem = "`%s` and `%s` would both be `%s`" % (names[name].owner, file.owner, name)
            fail_with(ctx.label, "python", problem, "rename one, or remove it")
        if name in _GENERATED or (ctx.attr.triton and name.startswith(_AHEAD)):
            fail_with(ctx.label, "python", "`%s` is generated" % name, "rename your file")
        names[name] = file
    if "__init__.py" not in names:
        fail_with(ctx.label, "python", "`%s__init__.py` is missing" % python_root(ctx), "add it: `kernels` imports it")
    return names

def _module_files(ctx, extension):
    """The path in the variant directory of each file, for a variant that is a module."""
    path = ctx.attr.module.replace(".", "/")
    if not ctx.attr.binding:
        return {path + ctx.attr.library_suffix: extension}
    directory, slash, name = path.rpartition("/")
    library = "lib%s.so" % name
    code = ctx.actions.declare_file("%s.parts/%s.py" % (ctx.label.name, name))
    ctx.actions.expand_template(
        output = code,
        substitutions = {
            "@BACKEND@": ctx.attr.backend,
            "@CXX_ABI@": ctx.attr.cxx_abi,
            "@LIBRARY@": library,
            "@MODULE@": ctx.attr.module,
            "@TORCH@": ctx.attr.torch,
        },
        template = ctx.file._binding,
    )
    return {path + ".py": code, directory + slash + library: extension}

def _package_files(ctx, extension):
    """The path in the variant directory of each file except the extension, for a variant that is a package."""
    ops = ctx.actions.declare_file(ctx.label.name + ".parts/_ops.py")
    if ctx.attr.tvm_ffi:
        own = ctx.file._ops_tvm_ffi
    elif ctx.attr.python_version:
        own = ctx.file._ops_pybind
    else:
        own = ctx.file._ops if extension else ctx.file._ops_noarch
    ctx.actions.expand_template(output = ops, substitutions = {}, template = own)
    return _python_names(ctx) | {"_ops.py": ops}

def _metadata(ctx, objects):
    """metadata.json before the build adds to it, with the settings of the whole build that are not the default."""
    chosen = {"cxx": ctx.attr._cxx} if objects else {}
    if objects and gpu_of(ctx.attr.backend) == "cuda":
        chosen["compress"] = ctx.attr._compress
    values = {name: setting[BuildSettingInfo].value for name, setting in chosen.items()}
    others = {name: value for name, value in values.items() if value != FLAGS[name]["default"]}
    return json_with(ctx.attr.metadata, others) if others else ctx.attr.metadata

def _check_platform(ctx):
    """Fails if a variant for the build machine's CPU would be compiled for another CPU."""
    here = ctx.attr._here[platform_common.ConstraintValueInfo]
    if not ctx.attr.cpu and not ctx.target_platform_has_constraint(here):
        help = "build without `--platforms`, or build the variant for that CPU"
        fail_with(ctx.label, "cpu", "the variant is for %s, and `--platforms` names another CPU" % CPU, help)

def _check_device_link(ctx):
    """Fails unless all relocatable device code is linked."""
    linked = [name for target in ctx.attr.objects for name in target[KernelObjectsInfo].linked]
    for target in ctx.attr.objects:
        name = target.label.name
        if target[KernelObjectsInfo].relocatable and len([link for link in linked if link == name]) != 1:
            problem = "device code of `%s` is not linked, or more than once" % name
            fail_with(ctx.label, "objects", problem, "name one kernel_device_link that links all targets with `-rdc=true`")
    for name in linked:
        if name not in [target.label.name for target in ctx.attr.objects]:
            problem = "device code of `%s` is linked, and its host code is not" % name
            fail_with(ctx.label, "objects", problem, "name that target too")

def _kept(archs):
    """The images that a slice keeps for architectures: `sm_90` and `compute_90` for `9.0+PTX`, `gfx942`."""
    kept = []
    for arch in archs:
        if arch.startswith("gfx"):
            kept.append(arch)
        else:
            kept.append("sm_" + arch_number(arch))
            kept += ["compute_" + arch_number(arch)] if arch.endswith("+PTX") else []
    return kept

def _sliced(ctx, section, info):
    """The objects of a section; in a slice, with the device code for some of its architectures alone."""
    archs = ctx.attr.slice.get(section)
    if not archs:
        return info.objects
    if info.undivided:
        problem = "`%s` of `%s` is compiled together with its host code" % (info.undivided[0], section)
        fail_with(ctx.label, "slice", problem, "set `cuda_compile = \"split\"`, or build no slice")
    objects = []
    for i, object in enumerate(info.objects):
        if object not in info.device:
            objects.append(object)
            continue
        part = ctx.actions.declare_file("%s.parts/%s/%d-%s" % (ctx.label.name, section, i, object.basename))
        arguments = ctx.actions.args()
        arguments.add("slice")
        arguments.add("--in", object)
        arguments.add("--out", part)
        arguments.add_all(_kept(archs), before_each = "--keep")
        ctx.actions.run(
            executable = ctx.executable._assemble,
            arguments = [arguments],
            inputs = [object],
            outputs = [part],
            mnemonic = "KernelSlice",
            progress_message = "Slicing %{label}",
            **ACTION
        )
        objects.append(part)
    return objects

def _in_link_order(ctx, objects, sources):
    """The objects in the order of `link_order`; objects of other sources, and linked device code, follow."""
    order = {source: i for i, source in enumerate(ctx.attr.link_order)}
    for source in order:
        if source not in sources:
            fail_with(ctx.label, "link_order", "no target of `objects` compiles `%s`" % source, "remove it, or correct its path in the package")
    positions = sorted(range(len(objects)), key = lambda i: order.get(sources[i], len(order)))
    return [objects[i] for i in positions]

def _kernel_variant_impl(ctx):
    name = ctx.label.name
    check_variant(ctx)
    if ctx.attr.objects:
        _check_platform(ctx)
    identity = ctx.attr.id[KernelIdInfo]
    groups = {}
    for target in ctx.attr.objects:
        group = target.label.name
        if group in groups:
            fail_with(ctx.label, "objects", "two targets are named `%s`" % group, "rename one: symbols have the name in them")
        groups[group] = target
    for section in ctx.attr.slice:
        if section not in groups:
            fail_with(ctx.label, "slice", "no target of `objects` is named `%s`" % section, "remove it, or name the target too")
    compiled = [target[KernelObjectsInfo] for target in ctx.attr.objects]
    bound = [ctx.attr._binding_objects[KernelObjectsInfo]] if ctx.attr._binding_objects else []
    _check_device_link(ctx)
    archives = depset([archive for section in compiled for archive in section.archives]).to_list()
    objects = [object for section, target in groups.items() for object in _sliced(ctx, section, target[KernelObjectsInfo])]
    objects = _in_link_order(ctx, objects, [source for section in compiled for source in section.sources])
    openmp = [one.openmp for one in compiled if one.openmp]
    texts = [text for one in compiled for text in one.texts]
    optional = identity.objects + [object for info in bound for object in info.objects]
    optional += ctx.files._openmp if any([section.openmp_by_clang for section in compiled]) else []
    extension = link_extension(ctx, objects, optional, archives, openmp, texts, identity.text) if objects else None
    template = ctx.actions.declare_file(name + ".parts/metadata.json")
    ctx.actions.write(template, _metadata(ctx, objects))

    directory = ctx.actions.declare_directory(name)
    files = (_module_files if ctx.attr.module else _package_files)(ctx, extension)
    ahead = [target[KernelTritonInfo] for target in ctx.attr.triton]
    for functions in ahead:
        files.update(functions.files)
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s")
    arguments.set_param_file_format("multiline")
    arguments.add("variant")
    arguments.add("--id", identity.text)
    arguments.add("--template", template)
    arguments.add("--builder", "rules_torch_kernels " + VERSION)
    arguments.add_all("--out", [directory], expand_directories = False)
    for path, file in files.items():
        arguments.add("--file", path)
        arguments.add(file)
    if extension and not ctx.attr.module:
        arguments.add("--extension", ctx.attr.library_suffix or (".so" if ctx.attr.tvm_ffi else ".abi3.so"))
        arguments.add(extension)
    ctx.actions.run(
        executable = ctx.executable._assemble,
        arguments = [arguments],
        inputs = depset(files.values() + [identity.text, template] + ([extension] if extension else [])),
        outputs = [directory],
        mnemonic = "KernelVariant",
        progress_message = "Assembling %{label}",
        **ACTION
    )
    steps = ctx.actions.declare_file(name + ".steps.json")
    ctx.actions.write(steps, json.encode({
        "directory": directory.path,
        "steps": [step.path for info in compiled + bound + ahead for step in info.steps],
        "variant": name,
    }))
    return [
        DefaultInfo(files = depset([directory])),
        KernelVariantInfo(directory = directory, variant = name.rpartition("/")[2]),
        OutputGroupInfo(
            hipify = depset(transitive = [t[OutputGroupInfo].hipify for t in ctx.attr.objects if OutputGroupInfo in t]),
            steps = depset([steps]),
            _validation = check_extension(ctx, extension, objects, identity.text) if extension else depset(),
        ),
    ]

kernel_variant = rule(
    implementation = _kernel_variant_impl,
    cfg = cell_transition,
    attrs = {
        "archs": attr.string_list(
            doc = "The device code that the extension contains, if it has features, as in `gfx942:xnack-`: metadata.json lists no features.",
        ),
        "backend": attr.string(
            mandatory = True,
            doc = "`cpu`, or a version of CUDA or ROCm as in `cu130`, `rocm72`; without an extension also `cuda`, `universal`.",
        ),
        "binding": attr.bool(
            doc = "Whether the sources of the module have PYBIND11_MODULE and are compiled with `pybind`: the module then consists of a Python file and a library without Python, for every Python.",
        ),
        "cpu": attr.string(
            values = ["", "aarch64"],
            doc = "The CPU that the variant is for; empty for x86_64, or for variants without an extension.",
        ),
        "cxx_abi": attr.string(
            values = [""] + CXX_ABIS,
            doc = "C++ ABI of the torch that loads the variant; empty for variants without an extension.",
        ),
        "id": attr.label(
            mandatory = True,
            providers = [KernelIdInfo],
            doc = "The kernel_id of this kernel for the backend.",
        ),
        "library_suffix": attr.string(
            doc = "The suffix of the extension's file, for a module that is no `binding` and for a package with `python_version`: `.so`, `.abi3.so`, or with `python_version` the suffix of that Python.",
        ),
        "link_order": attr.string_list(
            doc = "Sources of `objects`, relative to their packages, in the order in which their objects are linked; it decides the order of static initialization, and which of several weak definitions is used. Default: the order of `objects` and of their `srcs`.",
        ),
        "metadata": attr.string(
            mandatory = True,
            doc = "metadata.json without `id`, `digest` and `provenance`, which the build adds.",
        ),
        "module": attr.string(
            doc = "The dotted name of an extension module, e.g. `pkg._C`: the variant is that module and metadata.json, without `python`. Empty for a package.",
        ),
        "more_flags": attr.string_list(
            doc = "The name of one of `objects`, and further options for its compilers; they change the id.",
        ),
        "objects": attr.label_list(
            providers = [KernelObjectsInfo],
            doc = "The kernel_objects to link, and a kernel_device_link for those with `-rdc=true`; empty for a variant without an extension.",
        ),
        "python": attr.label_list(
            allow_files = True,
            doc = "Python and data files of the package.",
        ),
        "python_root": attr.string(
            doc = "The directory, relative to the Bazel package, that becomes the root of the variant; empty for the package's own.",
        ),
        "python_version": attr.string(
            doc = "The Python that the variant is for, e.g. `3.13`: its sources depend on `cpython`. Empty for every Python.",
        ),
        "slice": attr.string_list_dict(
            doc = "By target of `objects`, the only architectures whose device code is linked, e.g. `9.0+PTX`, `gfx942`; targets that are not named keep all.",
        ),
        "stable_abi": attr.string(
            doc = "The first torch version, e.g. `2.9`, that a variant for torch's stable ABI fits; empty for other variants.",
        ),
        "torch": attr.string(
            doc = "Version of torch to build against, e.g. `2.13`; empty for variants without an extension.",
        ),
        "triton": attr.label_list(
            providers = [KernelTritonInfo],
            doc = "The kernel_triton whose machine code and launcher go into `_aot`.",
        ),
        "tvm_ffi": attr.string(
            doc = "Version of tvm-ffi, e.g. `0.1`, that the extension is bound with; empty for an extension that is bound with torch.",
        ),
        "_abi_check": tool("abi_check"),
        "_assemble": tool("assemble"),
        "_binding": include("_binding.py.template"),
        "_binding_objects": attr.label(default = _binding_objects, providers = [KernelObjectsInfo]),
        "_compress": attr.label(default = "//rules/settings:compress"),
        "_cpython_symbols": attr.label_list(default = _cpython_symbols, allow_files = True),
        "_cxx": attr.label(default = "//rules/settings:cxx"),
        "_exports": include("exports.map"),
        "_exports_binding": include("exports_binding.map"),
        "_exports_tvm_ffi": include("exports_tvm_ffi.map"),
        "_here": attr.label(
            default = "@platforms//cpu:" + CPU,
            providers = [platform_common.ConstraintValueInfo],
        ),
        "_link": tool("link"),
        "_openmp": attr.label(default = "//rules/private/include:openmp"),
        "_ops": include("_ops.py.template"),
        "_ops_noarch": include("_ops_noarch.py.template"),
        "_ops_pybind": include("_ops_pybind.py.template"),
        "_ops_tvm_ffi": include("_ops_tvm_ffi.py.template"),
        "_policy": attr.label(default = "//rules/private/policy"),
        "_shared_types": attr.label(
            default = "//rules/private/policy:shared_types.txt",
            allow_single_file = True,
        ),
        "_torch_exports": attr.label(
            default = "//toolchains/lock:torch_exports.bin",
            allow_single_file = True,
        ),
        "_torch_python_exports": attr.label(
            default = "//toolchains/lock:torch_python_exports.bin",
            allow_single_file = True,
        ),
        "_tvm_ffi": attr.label_list(default = _tvm_ffi_link, allow_files = True),
    },
    toolchains = TOOLCHAINS,
    doc = """One variant of the matrix as a directory: Python files, `_ops.py`, the extension, metadata.json; or a module
of a Python distribution alone.

The target sets the configuration of all its dependencies, so it can be built by its name:
`bazel build //examples/relu:torch213-cxx11-cu130-x86_64-linux`. The identifier of the variant is the end of that name,
behind its last `/`: `relu/torch213-cxx11-cu130-x86_64-linux` for a package with several kernels.""",
)
