"""The names of releases in variants and in repositories."""

load("//rules/facts:backends.bzl", "BACKENDS")
load("//toolchains/cc:flags.bzl", "CPU")

# The facts of the backends that have toolkits, by the directory of the toolchain.
GPUS = {name: struct(**facts) for name, facts in BACKENDS.items() if facts["prefix"]}

def gpu_of(backend):
    """The toolkit that a variant's backend is a release of.

    Args:
        backend: string, e.g. `cu130`.

    Returns:
        string, a key of GPUS, e.g. `cuda`; None if it is no release of a toolkit.
    """
    for name, gpu in GPUS.items():
        if backend.startswith(gpu.prefix):
            return name
    return None

def repository_name(kind, version = "", cpu = "", machine = CPU):
    """The name of a toolchain's repository.

    Args:
        kind: string, `cc`, `cuda`, `gcc`, `hipify`, `host`, `rocm` or `torch`.
        version: string, e.g. `13.0`, or `2.13+rocm`; empty for `cc`, `gcc` and `hipify`.
        cpu: string, the CPU that the toolchain compiles for, if it is not the default one.
        machine: string, the CPU that its programs run on.

    Returns:
        string, e.g. `torch_kernels_cuda_13_0`.
    """
    parts = ["torch_kernels", kind, version.replace(".", "_").replace("+", "_"), cpu]
    return "_".join([part for part in parts if part]) + ("_on_" + machine if machine != CPU else "")
