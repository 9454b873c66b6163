"""Memory and CPU estimates of compile actions, for Bazel's scheduler.

Bazel wants a function of its own name for each `resource_set`; none may be made of a figure (bazelbuild/bazel#15187). So
there is one for each amount of memory that phases.bzl names. Bazel 9.3 takes a dictionary as well
(bazelbuild/bazel#29285); these rules are for older ones too.
"""

load("//rules/facts:phases.bzl", "PHASES")

def _one(megabytes):
    return {"cpu": 1, "memory": megabytes}

def _150(_os, _inputs):
    return _one(150)

def _250(_os, _inputs):
    return _one(250)

def _400(_os, _inputs):
    return _one(400)

def _800(_os, _inputs):
    return _one(800)

def _1200(_os, _inputs):
    return _one(1200)

def _2200(_os, _inputs):
    return _one(2200)

def _2900(_os, _inputs):
    return _one(2900)

_FUNCTIONS = {function(None, 0)["memory"]: function for function in [_150, _250, _400, _800, _1200, _2200, _2900]}

def _function(mnemonic, megabytes):
    if megabytes not in _FUNCTIONS:
        fail("phases.bzl takes %s for %d MB, for which resources.bzl has no function: add one" % (mnemonic, megabytes))
    return _FUNCTIONS[megabytes]

def _functions(mnemonic, least):
    return [_function(mnemonic, max(megabytes, least)) for megabytes in PHASES[mnemonic]["memory"]]

_RESOURCES = {mnemonic: _functions(mnemonic, 0) for mnemonic in PHASES}

# Of sources of a section that depends on CUTLASS.
_TEMPLATES = {mnemonic: _functions(mnemonic, phase.get("templates", {}).get("memory", 0)) for mnemonic, phase in PHASES.items()}

def plain_resources(mnemonic):
    """The `resource_set` of an action that compiles what includes nothing.

    Args:
        mnemonic: string, of the action.

    Returns:
        function of the operating system and the number of inputs.
    """
    return _RESOURCES[mnemonic][0]

def full_resources(mnemonic):
    """The `resource_set` of an action that compiles what includes all of torch's headers.

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
