"""zig_binary: a static program for our own actions, built with the compiler that is there anyhow."""

load(":actions.bzl", "ACTION")
load(":transitions.bzl", "neutral_transition")

def _zig_binary_impl(ctx):
    sdk = ctx.toolchains["//toolchains/cc:toolchain_type"].sdk
    program = ctx.actions.declare_file(ctx.label.name + "_program")
    arguments = ctx.actions.args()
    arguments.add("build-exe")
    arguments.add_all(["-target", sdk.cpu + "-linux-none", "-OReleaseSmall", "-fstrip", "-fsingle-threaded"])
    arguments.add_all(["--cache-dir", ".zig-cache", "--global-cache-dir", ".zig-cache"])
    arguments.add_all(["--dep", "common"])
    arguments.add(ctx.file.main, format = "-Mroot=%s")
    arguments.add(ctx.file.common, format = "-Mcommon=%s")
    arguments.add(program, format = "-femit-bin=%s")
    ctx.actions.run(
        executable = sdk.compiler,
        arguments = [arguments],
        inputs = depset(ctx.files.srcs + [ctx.file.common], transitive = [sdk.zig_files]),
        outputs = [program],
        mnemonic = "ZigBuild",
        progress_message = "Building %{label}",
        toolchain = Label("//toolchains/cc:toolchain_type"),
        **ACTION
    )
    return [DefaultInfo(executable = program, files = depset([program]))]

zig_binary = rule(
    implementation = _zig_binary_impl,
    # The variant that asks for the program has no part in it: without this it would be built once for every variant.
    cfg = neutral_transition,
    attrs = {
        "common": attr.label(
            allow_single_file = [".zig"],
            mandatory = True,
            doc = "A file that programs share: the module `common`.",
        ),
        "main": attr.label(allow_single_file = [".zig"], mandatory = True, doc = "The root source file."),
        "srcs": attr.label_list(allow_files = [".zig"], mandatory = True, doc = "All source files of this program alone."),
    },
    executable = True,
    toolchains = ["//toolchains/cc:toolchain_type"],
    doc = "A static Linux program without libc, written in Zig.",
)
