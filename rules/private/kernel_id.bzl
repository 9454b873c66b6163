"""kernel_id: the unique id of a kernel, from the content of its sources."""

load(":actions.bzl", "ACTION", "package_path")
load(":providers.bzl", "KernelIdInfo")
load(":transitions.bzl", "neutral_transition")

def _named(file):
    return ["--src", package_path(file), file.path]

def _kernel_id_impl(ctx):
    header = ctx.actions.declare_file(ctx.label.name + "/torch_extension_name.h")
    text = ctx.actions.declare_file(ctx.label.name + "/id.txt")
    arguments = ctx.actions.args()
    arguments.add("id")
    arguments.add("--backend", ctx.attr.backend)
    arguments.add("--module", ctx.attr.module)
    arguments.add("--config", ctx.attr.config)
    arguments.add("--header", header)
    arguments.add("--text", text)
    arguments.add_all(ctx.files.srcs, map_each = _named)
    ctx.actions.run(
        executable = ctx.executable._step,
        arguments = [arguments],
        inputs = ctx.files.srcs,
        outputs = [header, text],
        mnemonic = "KernelId",
        progress_message = "Hashing the sources of %{label}",
        **ACTION
    )
    return [
        DefaultInfo(files = depset([header, text])),
        KernelIdInfo(header = header, text = text),
    ]

kernel_id = rule(
    implementation = _kernel_id_impl,
    cfg = neutral_transition,
    attrs = {
        "backend": attr.string(
            mandatory = True,
            values = ["cpu", "cuda", "universal"],
            doc = "A part of the id.",
        ),
        "config": attr.string(
            doc = "Whatever else changes the result in every cell alike (flags, archs), e.g. its SHA-256.",
        ),
        "module": attr.string(
            mandatory = True,
            doc = "Name of the Python module.",
        ),
        "srcs": attr.label_list(
            allow_files = True,
            mandatory = True,
            doc = "All source files of the kernel for this backend, Python files too.",
        ),
        "_step": attr.label(
            default = "//rules/private/step",
            executable = True,
            cfg = "exec",
        ),
    },
    provides = [KernelIdInfo],
    doc = """The unique id of a kernel for one backend.

The id names the extension module and the namespace of its ops, so that two versions of a kernel can live in one
process. It is a hash of the sources and of `config`: the same on every machine and for every cell.""",
)
