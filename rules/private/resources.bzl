"""Memory and CPU estimates of compile actions, for Bazel's scheduler.

For each `resource_set` Bazel requires a function with a name of its own, not a closure (bazelbuild/bazel#15187). So
there is a function for each amount of memory in phases.bzl. Bazel 9.3 accepts a dictionary as well
(bazelbuild/bazel#29285); these rules support older releases too.
"""

load("//rules/facts:phases.bzl", "PHASES")

def _with_memory(megabytes):
    return {"cpu": 1, "memory": megabytes}

def _150(_os, _inputs):
    return _with_memory(150)

def _250(_os, _inputs):
    return _with_memory(250)

def _400(_os, _inputs):
    return _with_memory(400)

def _800(_os, _inputs):
    return _with_memory(800)

def _1200(_os, _inputs):
    return _with_memory(1200)

def _2200(_os, _inputs):
    return _with_memory(2200)

def _2900(_os, _inputs):
    return _with_memory(2900)

_FUNCTIONS = {function(None, 0)["memory"]: function for function in [_150, _250, _400, _800, _1200, _2200, _2900]}

def _function(mnemonic, megabytes):
    if megabytes not in _FUNCTIONS:
        fail("phases.bzl has %s with %d MB, for which resources.bzl has no function: add it" % (mnemonic, megabytes))
    return _FUNCTIONS[megabytes]

def _functions(mnemonic, least):
    return [_function(mnemonic, max(megabytes, least)) for megabytes in PHASES[mnemonic]["memory"]]

_RESOURCES = {mnemonic: _functions(mnemonic, 0) for mnemonic in PHASES}

# For sources of a section that depends on CUTLASS.
_TEMPLATES = {mnemonic: _functions(mnemonic, phase.get("templates", {}).get("memory", 0)) for mnemonic, phase in PHASES.items()}

def plain_resources(mnemonic):
    """The `resource_set` of an action that compiles a source without includes.

    Args:
        mnemonic: string, of the action.

    Returns:
        function of the operating system and the number of inputs.
    """
    return _RESOURCES[mnemonic][0]

def full_resources(mnemonic):
    """The `resource_set` of an action that compiles a source with all of torch's headers.

    Args:
        mnemonic: string, of the action.

    Returns:
        function of the operating system and the number of inputs.
    """
    return _RESOURCES[mnemonic][2]

def resources(mnemonic, job):
    """The `resource_set` of an action that compiles.

    Args:
        mnemonic: string, of the action.
        job: struct of what all sources of a target have in common; see kernel_objects.bzl.

    Returns:
        function of the operating system and the number of inputs.
    """
    plain, needed, full = (_TEMPLATES if job.templates else _RESOURCES)[mnemonic]
    if not job.torch or job.target_version:
        return plain
    by_gcc = job.gcc and "cxx" in PHASES[mnemonic]["ways"]
    return needed if job.needed and not by_gcc else full
