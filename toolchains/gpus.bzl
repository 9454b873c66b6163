"""How releases are named: in a cell, and in repositories."""

# By the directory of the toolchain:
#
# prefix: what the backend of a cell begins with; the release follows, as in `cu130`.
# torch_build: what follows the version in the setting `torch`, as in torch's own local versions (`2.13.0+rocm7.2`).
GPUS = {
    "cuda": struct(prefix = "cu", torch_build = ""),
    "rocm": struct(prefix = "rocm", torch_build = "+rocm"),
}

def gpu_of(backend):
    """What the backend of a cell is a release of.

    Args:
        backend: string, e.g. `cu130`.

    Returns:
        string, a key of GPUS, e.g. `cuda`; None if it is none of them.
    """
    for name, gpu in GPUS.items():
        if backend.startswith(gpu.prefix):
            return name
    return None

def repository_name(kind, version, cpu = ""):
    """The name of a toolchain's repository.

    Args:
        kind: string, `cc`, `cuda`, `gcc`, `host`, `rocm` or `torch`.
        version: string, e.g. `13.0`, or `2.13+rocm`; a CPU for `cc` and `gcc`.
        cpu: string, if the toolchain is for another CPU than that of the machine that builds.

    Returns:
        string, e.g. `torch_kernels_cuda_13_0`.
    """
    name = "torch_kernels_%s_%s" % (kind, version.replace(".", "_").replace("+", "_"))
    return name + "_" + cpu if cpu else name
