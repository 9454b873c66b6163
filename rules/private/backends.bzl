"""The backends as the rules see them: the facts of each, and the functions that compile for it."""

load("//rules/facts:backends.bzl", FACTS = "BACKENDS")
load("//toolchains:gpus.bzl", "GPUS")
load(":cuda.bzl", "compile_cuda")
load(":errors.bzl", "fail_with")
load(":hip.bzl", "compile_hip")
load(":hipify.bzl", "hipify")

# Functions that compile a source of device code; see `compile_cuda`.
_COMPILE = {"cuda": compile_cuda, "rocm": compile_hip}

# Functions that first rewrite the sources of a section, see `hipify`; by the mnemonic of the action that they register.
_REWRITE = {"Hipify": hipify}

# Besides the facts:
#
# compile: one of _COMPILE.
# options: the options of every compile.
# rewrite: one of _REWRITE, or None.
# toolchain: the toolchain type of its SDKs; None if it has no SDK, and then only `options` counts.
BACKENDS = {
    name: struct(
        compile = _COMPILE[name] if name in GPUS else None,
        options = ["-D" + macro for macro in [facts["macro"]] + facts["defines"]],
        rewrite = _REWRITE[facts["rewriter"]] if facts["rewriter"] else None,
        toolchain = Label("//toolchains/%s:toolchain_type" % name) if name in GPUS else None,
        **facts
    )
    for name, facts in FACTS.items()
}

# The languages of device code, by the extension of a source.
LANGUAGES = {
    extension: language
    for backend in BACKENDS.values()
    for extension, language in backend.languages.items()
}

CC = Label("//toolchains/cc:toolchain_type")
TORCH = Label("//toolchains/torch:toolchain_type")

# The toolchains that kernel_objects and kernel_variant may need; apart from the C++ compiler, only those exist that the
# variant names.
TOOLCHAINS = [config_common.toolchain_type(CC, mandatory = True)] + [
    config_common.toolchain_type(kind, mandatory = False)
    for kind in [BACKENDS[name].toolchain for name in GPUS] + [TORCH]
]

def find_sdk(ctx, toolchain_type, attribute, wanted, title):
    """The SDK that toolchain resolution chose, or an error that says what to do.

    Args:
        ctx: rule context.
        toolchain_type: Label, one of TOOLCHAINS.
        attribute: string, the attribute that asks for it.
        wanted: string, the release, as the variant names it.
        title: string, its name in messages.

    Returns:
        the toolchain's `sdk`.
    """
    toolchain = ctx.toolchains[toolchain_type]
    if not toolchain:
        fail_with(
            ctx.label,
            attribute,
            "no %s SDK for `%s`" % (title, wanted),
            "declare it in toolchains/matrix.toml and lock it, or choose another variant",
        )
    return toolchain.sdk
