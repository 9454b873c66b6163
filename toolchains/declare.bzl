"""Declares the toolchains: one for each version, chosen by the settings of a variant and the CPUs of machine and target."""

load("//rules/facts:settings.bzl", "NONE")
load("//toolchains/cc:flags.bzl", "CPU", "MACHINES")
load("//toolchains/gcc:sdk.bzl", "gcc", "gcc_choice")
load("//toolchains/library:sdk.bzl", "library_sdk")
load(":gpus.bzl", "GPUS", "repository_name")

def _constraints(cpu):
    return ["@platforms//cpu:" + cpu, "@platforms//os:linux"]

def _toolchain(name, kind, sdk, machine, cpu, settings = []):
    native.toolchain(
        name = name,
        exec_compatible_with = _constraints(machine) if machine else [],
        target_compatible_with = _constraints(cpu),
        target_settings = settings,
        toolchain = sdk,
        toolchain_type = "@rules_torch_kernels//toolchains/%s:toolchain_type" % kind,
    )

def _chosen(prefix, kind, version, setting, value):
    """Declares a config_setting, and returns its label."""
    name = prefix + "_" + repository_name(kind, version) + "_chosen"
    native.config_setting(
        name = name,
        flag_values = {"@rules_torch_kernels//rules/settings:" + setting: value},
    )
    return [":" + name]

def cc_repository(cpu, machine):
    """The repository of the C++ SDK for a CPU.

    Args:
        cpu: string, the CPU that it compiles for.
        machine: string, the CPU that it runs on.

    Returns:
        string.
    """
    return repository_name("cc", cpu = "" if cpu == machine else cpu, machine = machine)

def _declare_gpus(prefix, cross, gpus):
    """Declares the SDKs of GPUS: one nvcc compiles for all CPUs."""
    for kind in GPUS:
        for version in {name: None for versions in gpus[kind].values() for name in versions}:
            settings = _chosen(prefix, kind, version, "backend", GPUS[kind].prefix + version.replace(".", ""))
            for machine, versions in gpus[kind].items():
                name = repository_name(kind, version, machine = machine)
                if version in versions:
                    _toolchain("%s_%s" % (prefix, name), kind, "@%s//:sdk" % name, machine, CPU, settings)
                    for cpu in [cpu for cpu in MACHINES if version in cross.get("%s %s" % (kind, cpu), [])]:
                        _toolchain("%s_%s_for_%s" % (prefix, name, cpu), kind, "@%s//:sdk_%s" % (name, cpu), machine, cpu, settings)

def _declare_torch(prefix, version, cpu = CPU, settings = None):
    """Declares headers of torch, which need no execution platform."""
    name = repository_name("torch", version, "" if cpu == CPU else cpu)
    settings = settings or _chosen(prefix, "torch", version, "torch", version)
    _toolchain("%s_%s" % (prefix, name), "torch", "@%s//:sdk" % name, None, cpu, settings)
    return settings

def _declare_cpython(prefix, cpython):
    """Declares `cpython` and `cpython_symbols`: headers and symbols of the variant's Python, if it names one."""
    chosen = {key: _chosen(prefix, "cpython", key, "python", key)[0] for key in cpython}
    library_sdk(
        name = "no_cpython",
        depends = NONE,
        headers = [],
        includes = [],
    )
    native.filegroup(name = "no_cpython_symbols")
    for name, target in {"cpython": "sdk", "cpython_symbols": "symbols"}.items():
        native.alias(
            name = name,
            actual = select(
                {chosen[key]: "@%s//:%s" % (repository, target) for key, repository in cpython.items()} |
                {"//conditions:default": ":no_" + name},
            ),
        )

def declare_toolchains(name, cpython, cross, gpus, torch):
    """Declares a toolchain for each version, the C++ and gcc toolchains, `gcc` and `gcc_if_chosen`.

    Args:
        name: string, the prefix of all targets' names.
        cpython: dict of string, the repositories of Pythons by their name in variants, e.g. `3.13`.
        cross: dict of list of string, versions for other CPUs, by kind and CPU, e.g. `torch aarch64`.
        gpus: dict by GPUS of dict by machine of list of string, versions, e.g. `13.0`, chosen by the backend `cu130`.
        torch: list of string, torch versions, e.g. `2.13`; each also as `2.13+rocm`, its name in variants for ROCm.
    """
    for machine in MACHINES:
        for cpu in MACHINES:
            suffix = "_%s_on_%s" % (cpu, machine)
            _toolchain(name + "_cc" + suffix, "cc", "@%s//:sdk" % cc_repository(cpu, machine), machine, cpu)
            repository = repository_name("gcc", cpu = "" if cpu == CPU else cpu, machine = machine)
            _toolchain(name + "_gcc" + suffix, "gcc", "@%s//:sdk" % repository, machine, cpu)
    _declare_gpus(name, cross, gpus)
    for version in torch:
        settings = {gpu.torch_build: _declare_torch(name, version + gpu.torch_build) for gpu in GPUS.values()}
        for cpu in [cpu for cpu in MACHINES if version in cross.get("torch " + cpu, [])]:
            _declare_torch(name, version, cpu, settings[""])
    _declare_cpython(name, cpython)
    gcc(name = "gcc")
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
