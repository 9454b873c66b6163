"""A precompiled header of torch/extension.h, shared by all projects with the same torch."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("//rules/facts:settings.bzl", "NONE")
load(":actions.bzl", "ACTION")
load(":attrs.bzl", "include", "tool")
load(":backends.bzl", "CC", "TORCH")
load(":compile.bzl", "precompiled_command")
load(":providers.bzl", "PrecompiledHeaderInfo")
load(":resources.bzl", "full_resources")

_MNEMONIC = "KernelCxxPrecompile"

def _precompiled_header_impl(ctx):
    toolchain = ctx.toolchains[TORCH]
    torch = toolchain.sdk if toolchain else None
    if ctx.attr._torch[BuildSettingInfo].value == NONE or not torch or not torch.needed:
        return [PrecompiledHeaderInfo(header = None, text = None)]
    header = ctx.actions.declare_file(ctx.label.name + ".pch")
    text = ctx.actions.declare_file(ctx.label.name + ".ii")
    command = precompiled_command(struct(
        binding = struct(headers = ctx.files._binding, marker = ctx.file._binding_marker),
        cc = ctx.toolchains[CC].sdk,
        cxx_abi = ctx.attr._cxx_abi[BuildSettingInfo].value,
        registration = ctx.file._registration,
        source = ctx.file.src,
        torch = torch,
    ), ctx.actions.args, header, text)
    ctx.actions.run(
        executable = ctx.executable._compile,
        arguments = command.arguments,
        inputs = command.inputs,
        outputs = [header, text],
        tools = [ctx.toolchains[CC].sdk.compiler],
        mnemonic = _MNEMONIC,
        progress_message = "Reading torch's headers, once for all that include them",
        resource_set = full_resources("KernelCxxCompile"),
        toolchain = CC,
        **ACTION
    )
    return [
        DefaultInfo(files = depset([header])),
        PrecompiledHeaderInfo(header = header, text = text),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "src": attr.label(allow_single_file = [".cpp"], mandatory = True, doc = "A source that only includes a header."),
        "_binding": attr.label_list(default = [Label("//rules/private/include:pybind")]),
        "_binding_marker": include("pybind/Python.h"),
        "_compile": tool("compile"),
        "_cxx_abi": attr.label(default = "//rules/settings:cxx_abi"),
        "_registration": include("registration.h"),
        "_torch": attr.label(default = "//rules/settings:torch"),
    },
    provides = [PrecompiledHeaderInfo],
    toolchains = [
        config_common.toolchain_type(CC, mandatory = True),
        config_common.toolchain_type(TORCH, mandatory = False),
    ],
    doc = "torch's header as sources with bindings read it, precompiled; empty without torch.",
)
