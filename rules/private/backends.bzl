"""What the rules know of each backend. A further one is a struct here, and what `compile` names."""

load("//toolchains:gpus.bzl", "GPUS")
load(":cuda.bzl", "compile_cuda")
load(":errors.bzl", "fail_with")
load(":hip.bzl", "compile_hip")
load(":hipify.bzl", "hipify")

# compile: function that compiles a source of device code; see `compile_cuda`.
# defines: options of every compile.
# example: an architecture, for messages.
# languages: of device code, by the extension of a source; all other sources are C++.
# rewrite: function that makes other sources of those of a section first, see `hipify`; or None.
# title: what messages call it.
# toolchain: the toolchain type of its SDKs; None if it has none, and then nothing above but `defines` counts.
BACKENDS = {
    "cpu": struct(
        compile = None,
        defines = ["-DCPU_KERNEL"],
        example = None,
        languages = {},
        rewrite = None,
        title = None,
        toolchain = None,
    ),
    "cuda": struct(
        compile = compile_cuda,
        defines = ["-DCUDA_KERNEL", "-DUSE_CUDA=1", "-DENABLE_FP8"],
        example = "8.0",
        languages = {"cu": "CUDA"},
        rewrite = None,
        title = "CUDA",
        toolchain = Label("//toolchains/cuda:toolchain_type"),
    ),
    "rocm": struct(
        compile = compile_hip,
        # The last three are torch's own for ROCm: COMMON_HIP_FLAGS and COMMON_HIPCC_FLAGS of torch.utils.cpp_extension,
        # less those that take away the operators of half types.
        defines = ["-DROCM_KERNEL", "-DUSE_ROCM=1", "-D__HIP_PLATFORM_AMD__=1", "-DCUDA_HAS_FP16=1", "-DENABLE_FP8"],
        example = "gfx942",
        languages = {"cu": "CUDA", "hip": "HIP"},
        rewrite = hipify,
        title = "ROCm",
        toolchain = Label("//toolchains/rocm:toolchain_type"),
    ),
}

# The languages of device code, by the extension of a source.
LANGUAGES = {
    extension: language
    for backend in BACKENDS.values()
    for extension, language in backend.languages.items()
}

CC = Label("//toolchains/cc:toolchain_type")
TORCH = Label("//toolchains/torch:toolchain_type")

# What kernel_objects and kernel_variant may need; of all but the C++ compiler only what the cell names is there.
TOOLCHAINS = [config_common.toolchain_type(CC, mandatory = True)] + [
    config_common.toolchain_type(one, mandatory = False)
    for one in [BACKENDS[name].toolchain for name in GPUS] + [TORCH]
]

def find_sdk(ctx, toolchain_type, attribute, wanted, title):
    """The SDK that toolchain resolution chose, or an error that says what to do.

    Args:
        ctx: rule context.
        toolchain_type: Label, one of TOOLCHAINS.
        attribute: string, the attribute that asks for it.
        wanted: string, the release, as the cell names it.
        title: string, what messages call it.

    Returns:
        what the toolchain has as `sdk`.
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
