"""nvcc's options for linking device code."""

load("//rules/facts:flags.bzl", "LINK_TIME_OPTIMIZATION", "RELOCATABLE", "RELOCATABLE_ALONE")

def linking_of(flags):
    """Separates the options for linking device code from an author's other flags for nvcc.

    Args:
        flags: list of string.

    Returns:
        struct: `relocatable`, whether the device code is linked with other sources' code; `optimized`, whether it is
            optimised at link time; `flags`, the other flags.
    """
    relocatable = False
    optimized = False
    others = []
    value_of = None
    for flag in flags:
        name, equals, value = flag.partition("=")
        if value_of:
            relocatable = flag == "true"
            value_of = None
        elif name in RELOCATABLE and equals:
            relocatable = value == "true"
        elif name in RELOCATABLE:
            value_of = name
        elif flag in RELOCATABLE_ALONE:
            relocatable = True
        elif flag in LINK_TIME_OPTIMIZATION:
            optimized = True
        else:
            others.append(flag)
    return struct(flags = others, optimized = optimized, relocatable = relocatable or optimized)
