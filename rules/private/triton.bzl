"""kernel_triton: the functions of an aot.toml, compiled by Triton for some architectures."""

load("@torch_kernels_toolchains//:libraries.bzl", "TRITON")
load("//rules/facts:phases.bzl", "PHASES")
load("//toolchains:gpus.bzl", "GPUS")
load("//toolchains/triton:sdk.bzl", "TritonSdkInfo")
load(":actions.bzl", "ACTION", "package_path")
load(":archs.bzl", "check_archs")
load(":errors.bzl", "check_paths", "fail_with")
load(":json_text.bzl", "json_object", "json_with")
load(":providers.bzl", "KernelTritonInfo")
load(":python_root.bzl", "below_root")
load(":resources.bzl", "plain_resources")
load(":transitions.bzl", "neutral_transition")

# Triton's names of the backends, and the extensions of their machine code.
_BACKENDS = {
    "cuda": struct(code = "cubin", target = "cuda"),
    "rocm": struct(code = "hsaco", target = "hip"),
}

_MNEMONIC = "TritonCompile"

def _triton(release):
    """The compiler of a release; Bazel fetches no other."""
    return TRITON.get(release)

def _module_path(ctx, file):
    """The path of a module below the directory with the package, in which the package may have another name."""
    return ctx.attr.module + "/" + below_root(ctx, "srcs", file)

def _function_of(ctx, name, text):
    """The function that a request names, after a check of both."""
    request = json.decode(text, default = None)
    if type(request) != "dict" or type(request.get("function")) != "string":
        problem = "`%s` is not a JSON object with the name of a function" % name
        fail_with(ctx.label, "requests", problem, "write e.g. `json.encode({\"function\": \"kernels.forward\", ...})`")
    if "/" in name:
        fail_with(ctx.label, "requests", "`%s` has a slash" % name, "rename it: files are named after it")
    return request["function"]

def _check(ctx):
    """Fails if an attribute has a wrong value."""
    if ctx.attr.backend not in _BACKENDS:
        fail_with(ctx.label, "backend", "`%s` has no Triton" % ctx.attr.backend, "choose from " + ", ".join(_BACKENDS))
    if ctx.attr.release not in TRITON:
        fail_with(ctx.label, "release", "no Triton `%s`" % ctx.attr.release, "choose from " + ", ".join(TRITON))
    backend = GPUS[ctx.attr.backend]
    if not ctx.attr.archs:
        fail_with(ctx.label, "archs", "no architectures", "name at least one, e.g. \"%s\"" % backend.example)
    check_archs(ctx.label, ctx.attr.backend, ctx.attr.archs, backend)
    if type(json.decode(ctx.attr.functions, default = None)) != "dict":
        fail_with(ctx.label, "functions", "it is not a JSON object", "write the parameters of each function with `json.encode`")
    check_paths(ctx.label, "srcs", ctx.files.srcs, "rename one: all modules are in one package")
    paths = [package_path(file) for file in ctx.files.srcs]
    for function, names in ctx.attr.reads.items():
        for name in names:
            if name not in paths:
                problem = "`%s` reads `%s`, which is not in `srcs`" % (function, name)
                fail_with(ctx.label, "reads", problem, "add it to `srcs`, or remove it")

def _compile(ctx, sdk, name, text, arch):
    """Compiles a function for an architecture, and returns its outputs."""
    function = _function_of(ctx, name, text)
    read = ctx.attr.reads.get(function)
    srcs = [file for file in ctx.files.srcs if read == None or package_path(file) in read]
    label = arch if ctx.attr.backend == "rocm" else "sm_" + arch.replace(".", "")
    stem = "%s.objects/%s.phases/%s/%s" % (ctx.label.name, name, label, PHASES[_MNEMONIC]["makes"]["arch"])
    files = struct(
        code = ctx.actions.declare_file(stem),
        facts = ctx.actions.declare_file(stem + ".json"),
        text = ctx.actions.declare_file(stem + ".txt"),
    )
    arguments = ctx.actions.args()
    arguments.add_joined("--library-path", sdk.library_path, join_with = ":")
    arguments.add(sdk.python)
    arguments.add_all(["-I", "-S", "-B"])
    arguments.add(sdk.script)
    arguments.add(sdk.site)
    arguments.add(json_with(text, {
        "arch": arch,
        "backend": _BACKENDS[ctx.attr.backend].target,
        "package": ctx.attr.module,
    }))
    arguments.add(files.code)
    for file in srcs:
        arguments.add("-f", _module_path(ctx, file))
        arguments.add(package_path(file))
        arguments.add(file)
    ctx.actions.run(
        executable = sdk.loader,
        arguments = [arguments],
        inputs = depset(srcs + [sdk.python], transitive = [sdk.files]),
        outputs = [files.code, files.facts, files.text],
        mnemonic = _MNEMONIC,
        progress_message = "Compiling %s for %s of %%{label}" % (function, arch),
        resource_set = plain_resources(_MNEMONIC),
        **ACTION
    )
    return files

def _kernel_triton_impl(ctx):
    _check(ctx)
    sdk = ctx.attr._sdk[TritonSdkInfo]
    names = {"_aot/" + file.basename: file for file in ctx.files._launcher}
    texts = []
    codes = []
    for name, text in ctx.attr.requests.items():
        for arch in ctx.attr.archs:
            files = _compile(ctx, sdk, name, text, arch)
            place = "_aot/%s.%s." % (name, arch)
            names[place + _BACKENDS[ctx.attr.backend].code] = files.code
            names[place + "json"] = files.facts
            codes.append(files.code)
            texts.append(files.text)
    index = ctx.actions.declare_file(ctx.label.name + ".objects/index.json")
    ctx.actions.write(index, json_object({
        "archs": json.encode(ctx.attr.archs),
        "backend": json.encode(ctx.attr.backend),
        "functions": ctx.attr.functions,
        "requests": json_object(ctx.attr.requests),
        "strict": json.encode(ctx.attr.strict),
        "triton": json.encode(sdk.version),
    }))
    names["_aot/index.json"] = index
    return [
        DefaultInfo(files = depset(names.values())),
        KernelTritonInfo(files = names, steps = codes),
        OutputGroupInfo(codes = depset(codes), texts = depset(texts)),
    ]

kernel_triton = rule(
    implementation = _kernel_triton_impl,
    cfg = neutral_transition,
    attrs = {
        "archs": attr.string_list(
            mandatory = True,
            doc = "The architectures to compile for: `9.0` for CUDA, `gfx942` for ROCm.",
        ),
        "backend": attr.string(
            mandatory = True,
            doc = "`cuda` or `rocm`.",
        ),
        "functions": attr.string(
            mandatory = True,
            doc = "JSON: the parameters of each function, by its name in the package, e.g. `kernels.forward`: the name, whether it is a constexpr, and, if it has a default, a list with the default.",
        ),
        "module": attr.string(
            mandatory = True,
            doc = "The name of the Python package.",
        ),
        "python_root": attr.string(
            mandatory = True,
            doc = "The directory, relative to the Bazel package, that is the root of the Python package.",
        ),
        "reads": attr.string_list_dict(
            doc = "The files of `srcs` that a function's compile reads, by its name in the package; if absent, all of them.",
        ),
        "release": attr.string(
            mandatory = True,
            doc = "The release of Triton, e.g. `3.9`.",
        ),
        "requests": attr.string_dict(
            mandatory = True,
            doc = "The compiles, each under a unique name, as JSON: `function`, e.g. `kernels.forward`; `signature`, the type of each argument as Triton spells it, with `:16` behind one that is divisible by 16, or `1` or `None` for an argument of that value; `constants`, the values of constexprs; `options`, e.g. `num_warps`.",
        ),
        "srcs": attr.label_list(
            allow_files = [".py"],
            mandatory = True,
            doc = "The modules with the functions, and the modules of the package that they import.",
        ),
        "strict": attr.bool(
            doc = "Whether a call without a compiled function is an error, instead of a compile by Triton on the user's machine.",
        ),
        "_launcher": attr.label(default = "//rules/private/include:aot"),
        "_sdk": attr.label(default = _triton, providers = [TritonSdkInfo], cfg = "exec"),
    },
    provides = [KernelTritonInfo],
    doc = """Functions in Triton, each compiled for each architecture by an action of its own, which needs no torch and no GPU.

A variant with the target in `triton` contains the machine code in its directory `_aot`, with the launcher.""",
)
