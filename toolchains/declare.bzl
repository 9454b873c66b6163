"""Declares the toolchains: one for each version, chosen by the settings of a cell."""

_CONSTRAINTS = ["@platforms//cpu:x86_64", "@platforms//os:linux"]

def _backend(version):
    return "cu" + version.replace(".", "")

def _declare(prefix, kind, version, setting, value):
    name = "%s_%s" % (kind, version.replace(".", "_"))
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

def declare_toolchains(name, cuda, torch):
    """Declares a toolchain for each version, and the C++ toolchain.

    Args:
        name: string, what the names of all targets begin with.
        cuda: list of string, CUDA versions, e.g. `13.0`, chosen by the backend `cu130`.
        torch: list of string, torch versions, e.g. `2.13`.
    """
    native.toolchain(
        name = name + "_cc",
        exec_compatible_with = _CONSTRAINTS,
        toolchain = "@torch_kernels_cc//:sdk",
        toolchain_type = "@rules_torch_kernels//toolchains/cc:toolchain_type",
    )
    for version in cuda:
        _declare(name, "cuda", version, "backend", _backend(version))
    for version in torch:
        _declare(name, "torch", version, "torch", version)
