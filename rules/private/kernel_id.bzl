"""kernel_id: the unique id of a kernel, a hash of its sources."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("//rules/facts:backends.bzl", "BACKENDS")
load("//rules/facts:settings.bzl", "NONE")
load(":actions.bzl", "ACTION", "dirname", "package_path")
load(":attrs.bzl", "include", "tool")
load(":errors.bzl", "fail_with", "is_identifier")
load(":providers.bzl", "KernelIdInfo")
load(":transitions.bzl", "id_transition")

_CC = "//toolchains/cc:toolchain_type"

def _named(file):
    return ["--src", package_path(file), file.path]

def _kernel_id_impl(ctx):
    if not is_identifier(ctx.attr.module):
        fail_with(ctx.label, "module", "`%s` is not a name in C++ and Python" % ctx.attr.module, "use letters, digits and `_`")
    header = ctx.actions.declare_file(ctx.label.name + "/torch_extension_name.h")
    text = ctx.actions.declare_file(ctx.label.name + "/id.txt")
    arguments = ctx.actions.args()
    arguments.add("id")
    arguments.add("--backend", ctx.attr.backend)
    arguments.add("--module", ctx.attr.module)
    more = ctx.attr._more_flags[BuildSettingInfo].value
    arguments.add("--config", ctx.attr.config + ("" if more == NONE else more))
    arguments.add("--header", header)
    arguments.add("--text", text)
    arguments.add_all(ctx.files.srcs, map_each = _named)
    ctx.actions.run(
        executable = ctx.executable._assemble,
        arguments = [arguments],
        inputs = ctx.files.srcs,
        outputs = [header, text],
        mnemonic = "KernelId",
        progress_message = "Hashing the sources of %{label}",
        **ACTION
    )
    return [
        DefaultInfo(files = depset([header, text])),
        KernelIdInfo(
            header = header,
            objects = [_object(ctx, source, header) for source in ctx.files._linked],
            text = text,
        ),
    ]

def _object(ctx, source, header):
    """Compiles the source that contains the id, for bindings whose own text does not."""
    cc = ctx.toolchains[_CC].sdk
    object = ctx.actions.declare_file("%s/%s.o" % (ctx.label.name, source.basename.removesuffix(".cpp")))
    arguments = ctx.actions.args()
    arguments.add("clang")
    arguments.add_all(cc.flags)
    arguments.add_all(["-O2", "-fPIC", "-fvisibility=hidden"])
    arguments.add_all([ctx.file._registration], map_each = dirname, before_each = "-I")
    arguments.add("-include", header)
    arguments.add("-c", source)
    arguments.add("-o", object)
    ctx.actions.run(
        executable = cc.compiler,
        arguments = [arguments],
        inputs = [source, header, ctx.file._registration],
        outputs = [object],
        mnemonic = "KernelIdObject",
        progress_message = "Compiling the id of %{label}",
        toolchain = Label(_CC),
        **ACTION
    )
    return object

kernel_id = rule(
    implementation = _kernel_id_impl,
    cfg = id_transition,
    attrs = {
        "backend": attr.string(
            mandatory = True,
            values = list(BACKENDS) + ["universal"],
            doc = "A part of the id.",
        ),
        "config": attr.string(
            doc = "Everything else that changes all variants alike (flags, archs), e.g. its SHA-256.",
        ),
        "module": attr.string(
            mandatory = True,
            doc = "Name of the Python module.",
        ),
        "srcs": attr.label_list(
            allow_files = True,
            mandatory = True,
            doc = "All source files of the kernel for this backend, including Python files.",
        ),
        "_assemble": tool("assemble"),
        "_linked": attr.label_list(
            default = ["//rules/private/include:id.cpp", "//rules/private/include:module.cpp"],
            allow_files = True,
        ),
        "_more_flags": attr.label(default = "//rules/settings:more_flags"),
        "_registration": include("registration.h"),
    },
    provides = [KernelIdInfo],
    toolchains = [_CC],
    doc = """The unique id of a kernel for one backend.

The id names the extension module and the namespace of its ops, so that two versions of a kernel can live in one
process. It is a hash of the sources and of `config`: the same on every machine and for every variant.""",
)
