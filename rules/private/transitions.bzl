"""Transitions: into a variant, and out of the parts of a variant on which a target does not depend."""

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
_CELL = [TORCH, CXX_ABI, STABLE_ABI, BACKEND, PYTHON]
_SETTINGS = _CELL + [_MORE_FLAGS]
_PLATFORMS = "//command_line_option:platforms"

# What variants are built for. Where none is named, that is whatever the build is for, which is the machine itself; but on a
# machine with another CPU than the usual one.
_PLATFORM = {"aarch64": Label("//toolchains:aarch64")} | ({"": Label("//toolchains:x86_64")} if MACHINE != CPU else {})

def more_flags(setting, section):
    """The further options of a section.

    Args:
        setting: string, the value of `//rules/settings:more_flags`.
        section: string, the name of a kernel_objects.

    Returns:
        list of string; none for another section than the one that has some.
    """
    words = [] if setting == NONE else json.decode(setting)
    return words[1:] if words and words[0] == section else []

def _cell_impl(settings, attr):
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
    implementation = _cell_impl,
    inputs = [_PLATFORMS],
    outputs = _SETTINGS + [_PLATFORMS],
)

def _objects_impl(settings, attr):
    torch = "torch" in attr.depends
    names = [attr.name] + [label.name for label in getattr(attr, "objects", [])]

    # A variant has `cu130` where a section says `cuda`.
    return {
        TORCH: settings[TORCH] if torch else NONE,
        CXX_ABI: settings[CXX_ABI] if torch or settings[CXX_ABI] != CXX_ABIS[0] else NONE,
        STABLE_ABI: settings[STABLE_ABI] if torch else NONE,
        BACKEND: settings[BACKEND] if attr.backend in GPUS or settings[BACKEND] == NONE else attr.backend,
        PYTHON: settings[PYTHON] if "cpython" in attr.depends else NONE,
        _MORE_FLAGS: settings[_MORE_FLAGS] if attr.id or any([more_flags(settings[_MORE_FLAGS], name) for name in names]) else NONE,
    }

# What a group of objects depends on follows from `depends` and `backend`; all else is reset, so that variants which
# differ in nothing else share one configured target: its actions run once, without any flag or cache. The C++ ABI is no
# matter of torch: objects that are linked together hand std::string to each other, by whatever path. So the ABI is kept;
# only the default, which needs no flag, is reset to NONE. Further options are for one section, and for what sees the
# id, which they change. What links the device code of targets depends on all that these depend on.
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
    return {setting: NONE for setting in _CELL} | {_MORE_FLAGS: settings[_MORE_FLAGS]}

# An id is the same in all variants, but for those that have further options.
id_transition = transition(
    implementation = _id_impl,
    inputs = [_MORE_FLAGS],
    outputs = _SETTINGS,
)
