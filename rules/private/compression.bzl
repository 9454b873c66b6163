"""The compression of CUDA's device code: options of fatbinary alone."""

load("//rules/facts:compression.bzl", "AUTHORS", "DEBUG")
load("//rules/facts:settings.bzl", "FLAGS")
load(":errors.bzl", "fail_with")

def _chosen(flag):
    """Whether an author's option of nvcc chooses the compression, by itself or for fatbinary."""
    words = flag.replace("=", ",").split(",")
    return any([word.startswith("-") and word.lstrip("-").startswith(name) for word in words for name in AUTHORS])

def compression(label, gpu, choice, flags):
    """fatbinary's options for the compression; empty where nvcc's own options stay.

    An author's options for a section apply unless the setting of the whole build is changed; debug code is then left to
    nvcc.

    Args:
        label: Label, of the target.
        gpu: CudaSdkInfo.
        choice: string, the value of `//rules/settings:compress`.
        flags: list of string, the author's options of nvcc.

    Returns:
        list of string.
    """
    if choice != FLAGS["compress"]["default"]:
        if choice not in gpu.compressions:
            known = ", ".join(["`%s`" % name for name in gpu.compressions]) or "none"
            problem = "fatbinary of CUDA %s cannot compress for `%s`" % (gpu.version, choice)
            fail_with(label, "//rules/settings:compress", problem, "choose one that it knows (%s), or other variants" % known)
        return gpu.compressions[choice]
    if any([flag in DEBUG or _chosen(flag) for flag in flags]):
        return []
    return gpu.compressions.get(gpu.compress, [])
