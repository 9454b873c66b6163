"""Transitions: into a variant, and away from the settings of a variant that a target does not depend on."""

load("@torch_kernels_toolchains//:machine.bzl", "MACHINE")
load("//rules/facts:settings.bzl", "CXX_ABIS", "NONE")
load("//toolchains:gpus.bzl", "GPUS", "gpu_of")
load("//toolchains/cc:flags.bzl", "CPU")

TORCH = "//rules/settings:torch"
CXX_ABI = "//rules/settings:cxx_abi"
STABLE_ABI = "//rules/settings:stable_abi"
BACKEND = "//rules/settings:backend"
PYTHON = "//rules/settings:python"

# The name of a section and further options for its compilers, as JSON.
_MORE_FLAGS = "//rules/settings:more_flags"
_CONFIGURATION = [TORCH, CXX_ABI, STABLE_ABI, BACKEND, PYTHON]
_SETTINGS = _CONFIGURATION + [_MORE_FLAGS]
_PLATFORMS = "//command_line_option:platforms"

# The platform of a variant, by its `cpu`. Without a `cpu` it is the build's platform, which is the machine itself,
# except on a machine whose CPU is not the default one.
_PLATFORM = {"aarch64": Label("//toolchains:aarch64")} | ({"": Label("//toolchains:x86_64")} if MACHINE != CPU else {})

def more_flags(setting, section):
    """The further options of a section.

    Args:
        setting: string, the value of `//rules/settings:more_flags`.
        section: string, the name of a kernel_objects.

    Returns:
        list of string; empty for every other section than the setting's.
    """
    words = [] if setting == NONE else json.decode(setting)
    return words[1:] if words and words[0] == section else []

def _configuration_impl(settings, attr):
    gpu = gpu_of(attr.backend)
    build = GPUS[gpu].torch_build if attr.torch and gpu else ""
    return {
        TORCH: attr.torch + build or NONE,
        CXX_ABI: attr.cxx_abi or NONE,
        STABLE_ABI: attr.stable_abi or NONE,
        BACKEND: attr.backend,
        PYTHON: attr.python_version or NONE,
        _MORE_FLAGS: json.encode(attr.more_flags) if attr.more_flags else NONE,
        _PLATFORMS: [_PLATFORM[attr.cpu]] if attr.cpu in _PLATFORM else settings[_PLATFORMS],
    }

cell_transition = transition(
    implementation = _configuration_impl,
    inputs = [_PLATFORMS],
    outputs = _SETTINGS + [_PLATFORMS],
)

def _objects_impl(settings, attr):
    torch = "torch" in attr.depends
    names = [attr.name] + [label.name for label in getattr(attr, "objects", [])]

    # A variant's backend is `cu130` where a section's is `cuda`.
    return {
        TORCH: settings[TORCH] if torch else NONE,
        CXX_ABI: settings[CXX_ABI] if torch or settings[CXX_ABI] != CXX_ABIS[0] else NONE,
        STABLE_ABI: settings[STABLE_ABI] if torch else NONE,
        BACKEND: settings[BACKEND] if attr.backend in GPUS or settings[BACKEND] == NONE else attr.backend,
        PYTHON: settings[PYTHON] if "cpython" in attr.depends else NONE,
        _MORE_FLAGS: settings[_MORE_FLAGS] if attr.id or any([more_flags(settings[_MORE_FLAGS], name) for name in names]) else NONE,
    }

# `depends` and `backend` determine the settings that a section's objects depend on; all others are reset, so that
# variants which differ only in those share one configured target: its actions run once, without any flag or cache. The
# C++ ABI does not depend on torch: objects that are linked together may pass std::string to each other. So the ABI is
# kept; only the default, which needs no flag, is reset to NONE. Further options apply to one section, and to targets
# that see the id, which they change. A target that links the device code of others depends on all their settings.
objects_transition = transition(
    implementation = _objects_impl,
    inputs = _SETTINGS,
    outputs = _SETTINGS,
)

def _neutral_impl(_settings, _attr):
    return {setting: NONE for setting in _SETTINGS}

neutral_transition = transition(
    implementation = _neutral_impl,
    inputs = [],
    outputs = _SETTINGS,
)

def _id_impl(settings, _attr):
    return {setting: NONE for setting in _CONFIGURATION} | {_MORE_FLAGS: settings[_MORE_FLAGS]}

# An id is the same in all variants, except in variants with further options.
id_transition = transition(
    implementation = _id_impl,
    inputs = [_MORE_FLAGS],
    outputs = _SETTINGS,
)
