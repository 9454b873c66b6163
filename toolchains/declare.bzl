"""Declares the toolchains: one for each version, chosen by the settings of a cell."""

load("//toolchains/torch:build.bzl", "ROCM_BUILD")

_CONSTRAINTS = ["@platforms//cpu:x86_64", "@platforms//os:linux"]

_BACKENDS = {"cuda": "cu", "rocm": "rocm"}

def _declare(prefix, kind, version, setting, value):
    name = "%s_%s" % (kind, version.replace(".", "_").replace("+", "_"))
    native.config_setting(
        name = prefix + "_is_" + name,
        flag_values = {"@rules_torch_kernels//rules/settings:" + setting: value},
    )
    native.toolchain(
        name = prefix + "_" + name,
        exec_compatible_with = _CONSTRAINTS,
        target_settings = [":" + prefix + "_is_" + name],
        toolchain = "@torch_kernels_%s//:sdk" % name,
        toolchain_type = "@rules_torch_kernels//toolchains/%s:toolchain_type" % kind,
    )

def declare_toolchains(name, cuda, rocm, torch):
    """Declares a toolchain for each version, and the C++ toolchain.

    Args:
        name: string, what the names of all targets begin with.
        cuda: list of string, CUDA versions, e.g. `13.0`, chosen by the backend `cu130`.
        rocm: list of string, ROCm versions, e.g. `7.2`, chosen by the backend `rocm72`.
        torch: list of string, torch versions, e.g. `2.13`; each also as `2.13+rocm`, as cells for ROCm name it.
    """
    native.toolchain(
        name = name + "_cc",
        exec_compatible_with = _CONSTRAINTS,
        toolchain = "@torch_kernels_cc//:sdk",
        toolchain_type = "@rules_torch_kernels//toolchains/cc:toolchain_type",
    )
    for kind, versions in {"cuda": cuda, "rocm": rocm}.items():
        for version in versions:
            _declare(name, kind, version, "backend", _BACKENDS[kind] + version.replace(".", ""))
    for version in torch:
        for build in [version, version + ROCM_BUILD]:
            _declare(name, "torch", build, "torch", build)
