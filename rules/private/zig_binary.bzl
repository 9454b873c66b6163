"""zig_binary: a static program for our own actions, built with the compiler that is there anyhow."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load(":actions.bzl", "ACTION")
load(":transitions.bzl", "neutral_transition")

def _build(ctx, verb, sources, arguments, out):
    """Registers the action that has zig build something.

    Args:
        ctx: the rule's context.
        verb: string, of zig.
        sources: list of File, what is read besides Zig's library.
        arguments: Args, what is built of them.
        out: File, what is made.
    """
    sdk = ctx.toolchains["//toolchains/cc:toolchain_type"].sdk
    options = ctx.actions.args()
    options.add(verb)
    options.add_all(["-target", sdk.cpu + "-linux-none", "-OReleaseSmall", "-fstrip", "-fsingle-threaded"])
    options.add_all(["--cache-dir", ".zig-cache", "--global-cache-dir", ".zig-cache"])
    arguments.add(out, format = "-femit-bin=%s")
    ctx.actions.run(
        executable = sdk.compiler,
        arguments = [options, arguments],
        inputs = depset(sources, transitive = [sdk.zig_files]),
        outputs = [out],
        mnemonic = "ZigBuild",
        progress_message = "Building %{label}",
        toolchain = Label("//toolchains/cc:toolchain_type"),
        **ACTION
    )

def _zig_runtime_impl(ctx):
    sdk = ctx.toolchains["//toolchains/cc:toolchain_type"].sdk
    runtime = ctx.actions.declare_file(ctx.label.name + ".o")
    arguments = ctx.actions.args()
    arguments.add("-ffunction-sections")
    arguments.add(sdk.zig_runtime, format = "-Mroot=%s")
    _build(ctx, "build-obj", [], arguments, runtime)
    return [DefaultInfo(files = depset([runtime]))]

def _prebuilt(ctx):
    """The program as the release has it for the machine that runs actions; None if there is none, or it is not wanted."""
    cpu = ctx.toolchains["//toolchains/cc:toolchain_type"].sdk.cpu
    if ctx.attr._programs[BuildSettingInfo].value == "source":
        return None
    return ([file for file in ctx.files.prebuilt if file.dirname.endswith("/" + cpu)] or [None])[0]

def _zig_binary_impl(ctx):
    program = ctx.actions.declare_file(ctx.label.name + "_program")
    if _prebuilt(ctx):
        ctx.actions.symlink(output = program, target_file = _prebuilt(ctx), is_executable = True)
        return [DefaultInfo(executable = program, files = depset([program]))]
    arguments = ctx.actions.args()
    arguments.add("-fno-compiler-rt")
    arguments.add_all(["--dep", "common"])
    arguments.add(ctx.file.main, format = "-Mroot=%s")
    arguments.add(ctx.file.common, format = "-Mcommon=%s")
    arguments.add(ctx.file.runtime)
    _build(ctx, "build-exe", ctx.files.srcs + [ctx.file.common, ctx.file.runtime], arguments, program)
    return [DefaultInfo(executable = program, files = depset([program]))]

zig_runtime = rule(
    implementation = _zig_runtime_impl,
    cfg = neutral_transition,
    toolchains = ["//toolchains/cc:toolchain_type"],
    doc = "The functions that code of Zig's compiler calls, such as `memcpy`: zig would build them anew for each program.",
)

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
        "prebuilt": attr.label_list(
            allow_files = True,
            doc = "The program, in a directory with the name of the CPU that it runs on; made by tests/release.py.",
        ),
        "runtime": attr.label(allow_single_file = [".o"], mandatory = True, doc = "A `zig_runtime`."),
        "srcs": attr.label_list(allow_files = [".zig"], mandatory = True, doc = "All source files of this program alone."),
        "_programs": attr.label(default = "//rules/settings:programs"),
    },
    executable = True,
    toolchains = ["//toolchains/cc:toolchain_type"],
    doc = "A static Linux program without libc, written in Zig.",
)
