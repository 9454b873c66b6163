"""Declares the toolchains: one for each version, chosen by the settings of a cell."""

load("//toolchains/cc:flags.bzl", "CPU")
load("//toolchains/gcc:sdk.bzl", "gcc_choice")
load(":gpus.bzl", "GPUS", "repository_name")

def _constraints(cpu):
    return ["@platforms//cpu:" + cpu, "@platforms//os:linux"]

def _declare(prefix, kind, version, setting, value, cpu = ""):
    # nvcc is the same for all; torch's headers are not.
    shared = kind == "cuda"
    repository = repository_name(kind, version, "" if shared else cpu)
    name = prefix + "_" + repository_name(kind, version, cpu)
    native.config_setting(
        name = name + "_chosen",
        flag_values = {"@rules_torch_kernels//rules/settings:" + setting: value},
    )
    native.toolchain(
        name = name,
        exec_compatible_with = _constraints(CPU),
        target_compatible_with = _constraints(cpu or CPU),
        target_settings = [":%s_chosen" % name],
        toolchain = "@%s//:sdk%s" % (repository, "_" + cpu if cpu and shared else ""),
        toolchain_type = "@rules_torch_kernels//toolchains/%s:toolchain_type" % kind,
    )

def declare_toolchains(name, cross, gcc, gpus, torch):
    """Declares a toolchain for each version, the C++ toolchains, `gcc` and `gcc_if_chosen`.

    Args:
        name: string, what the names of all targets begin with.
        cross: dict of list of string, versions for other CPUs, by kind and CPU, e.g. `torch aarch64`.
        gcc: list of string, other CPUs that gcc compiles for.
        gpus: dict of list of string, versions of each of GPUS, e.g. `13.0` of `cuda`, chosen by the backend `cu130`.
        torch: list of string, torch versions, e.g. `2.13`; each also as `2.13+rocm`, as cells for ROCm name it.
    """
    for cpu in [CPU] + [key.split(" ")[1] for key in cross if key.startswith("torch ")]:
        native.toolchain(
            name = name + "_cc" if cpu == CPU else name + "_cc_" + cpu,
            exec_compatible_with = _constraints(CPU),
            target_compatible_with = _constraints(cpu),
            toolchain = "@torch_kernels_cc//:sdk" if cpu == CPU else "@%s//:sdk" % repository_name("cc", cpu),
            toolchain_type = "@rules_torch_kernels//toolchains/cc:toolchain_type",
        )
    for kind, gpu in GPUS.items():
        for version in gpus[kind]:
            _declare(name, kind, version, "backend", gpu.prefix + version.replace(".", ""))
        for version in torch:
            build = version + gpu.torch_build
            _declare(name, "torch", build, "torch", build)
    for key, versions in cross.items():
        kind, cpu = key.split(" ")
        for version in versions:
            value = version if kind == "torch" else GPUS[kind].prefix + version.replace(".", "")
            _declare(name, kind, version, "torch" if kind == "torch" else "backend", value, cpu)
    native.alias(
        name = "gcc",
        actual = select({"@platforms//cpu:" + cpu: "@%s//:sdk" % repository_name("gcc", cpu) for cpu in gcc} | {
            "//conditions:default": "@torch_kernels_gcc//:sdk",
        }),
    )
    chosen = name + "_gcc_chosen"
    native.config_setting(
        name = chosen,
        flag_values = {"@rules_torch_kernels//rules/settings:cxx": "gcc"},
    )
    gcc_choice(
        name = "gcc_if_chosen",
        sdk = select({
            ":" + chosen: ":gcc",
            "//conditions:default": None,
        }),
    )
