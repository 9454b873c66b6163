"""zig_binary: a static program for the rules' own actions, built with zig, which the C++ toolchain contains."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load(":actions.bzl", "ACTION")
load(":transitions.bzl", "neutral_transition")

def _build(ctx, command, sources, arguments, out):
    """Registers an action that builds with zig.

    Args:
        ctx: the rule's context.
        command: string, of zig.
        sources: list of File, the inputs besides Zig's library.
        arguments: Args, the options of the build.
        out: File, the output.
    """
    sdk = ctx.toolchains["//toolchains/cc:toolchain_type"].sdk
    options = ctx.actions.args()
    options.add(command)
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
    """The release's program for the machine that runs actions; None if it is absent or not wanted."""
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
    doc = "The functions that Zig's generated code calls, such as `memcpy`: zig would build them again for each program.",
)

zig_binary = rule(
    implementation = _zig_binary_impl,
    # The program does not depend on the variant: without the transition it would be built for every variant.
    cfg = neutral_transition,
    attrs = {
        "common": attr.label(
            allow_single_file = [".zig"],
            mandatory = True,
            doc = "The module `common`, which programs share.",
        ),
        "main": attr.label(allow_single_file = [".zig"], mandatory = True, doc = "The root source file."),
        "prebuilt": attr.label_list(
            allow_files = True,
            doc = "The program, in a directory with the name of its CPU; built by tests/release.py.",
        ),
        "runtime": attr.label(allow_single_file = [".o"], mandatory = True, doc = "A `zig_runtime`."),
        "srcs": attr.label_list(allow_files = [".zig"], mandatory = True, doc = "All source files of this program, without `common`."),
        "_programs": attr.label(default = "//rules/settings:programs"),
    },
    executable = True,
    toolchains = ["//toolchains/cc:toolchain_type"],
    doc = "A static Linux program without libc, written in Zig.",
)
