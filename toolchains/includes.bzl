"""The include directories of an SDK."""

def include_paths(ctx, includes):
    """Include directories of an SDK's rule as paths from the execution root.

    They are strings, since headers are source files, whose paths path mapping does not change.

    Args:
        ctx: rule context of the SDK.
        includes: list of string, relative to the package of the SDK.

    Returns:
        list of string.
    """
    base = [part for part in [ctx.label.workspace_root, ctx.label.package] if part]
    return ["/".join(base + [include]) for include in includes]
