"""torch's stable ABI: the macro with the oldest release that an object must fit."""

load(":errors.bzl", "fail_with")

def target_version(label, version):
    """The definition of TORCH_TARGET_VERSION, as torch/headeronly/version.h spells versions.

    Args:
        label: Label of the target, for messages.
        version: string, the first torch release that an object must fit, e.g. `2.9`.

    Returns:
        string, an option of compilers.
    """
    parts = version.split(".")
    if len(parts) != 2 or not all([part.isdigit() for part in parts]):
        fail_with(label, "stable_abi", "`%s` is not a torch version" % version, "write major and minor, e.g. `2.9`")
    major, minor = [int(part) for part in parts]
    return "-DTORCH_TARGET_VERSION=0x%xULL" % ((major << 56) | (minor << 48))
