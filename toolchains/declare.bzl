"""Declares the toolchains: one for each version, chosen by the settings of a cell."""

load("//toolchains/gcc:sdk.bzl", "gcc_choice")
load(":gpus.bzl", "GPUS", "repository_name")

_CONSTRAINTS = ["@platforms//cpu:x86_64", "@platforms//os:linux"]

def _declare(prefix, kind, version, setting, value):
    repository = repository_name(kind, version)
    name = prefix + "_" + repository
    native.config_setting(
        name = name + "_chosen",
        flag_values = {"@rules_torch_kernels//rules/settings:" + setting: value},
    )
    native.toolchain(
        name = name,
        exec_compatible_with = _CONSTRAINTS,
        target_settings = [":%s_chosen" % name],
        toolchain = "@%s//:sdk" % repository,
        toolchain_type = "@rules_torch_kernels//toolchains/%s:toolchain_type" % kind,
    )

def declare_toolchains(name, gpus, torch):
    """Declares a toolchain for each version, the C++ toolchain, and `gcc_if_chosen`.

    Args:
        name: string, what the names of all targets begin with.
        gpus: dict of list of string, versions of each of GPUS, e.g. `13.0` of `cuda`, chosen by the backend `cu130`.
        torch: list of string, torch versions, e.g. `2.13`; each also as `2.13+rocm`, as cells for ROCm name it.
    """
    native.toolchain(
        name = name + "_cc",
        exec_compatible_with = _CONSTRAINTS,
        toolchain = "@torch_kernels_cc//:sdk",
        toolchain_type = "@rules_torch_kernels//toolchains/cc:toolchain_type",
    )
    for kind, gpu in GPUS.items():
        for version in gpus[kind]:
            _declare(name, kind, version, "backend", gpu.prefix + version.replace(".", ""))
        for version in torch:
            build = version + gpu.torch_build
            _declare(name, "torch", build, "torch", build)
    chosen = name + "_gcc_chosen"
    native.config_setting(
        name = chosen,
        flag_values = {"@rules_torch_kernels//rules/settings:cxx": "gcc"},
    )
    gcc_choice(
        name = "gcc_if_chosen",
        sdk = select({
            ":" + chosen: "@torch_kernels_gcc//:sdk",
            "//conditions:default": None,
        }),
    )
