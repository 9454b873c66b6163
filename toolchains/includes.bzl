"""Where the headers of an SDK are."""

def include_paths(ctx, includes):
    """Include directories as an SDK's rule names them, from the execution root.

    They are strings, since headers are source files, which path mapping leaves where they are.

    Args:
        ctx: rule context of the SDK.
        includes: list of string, relative to the package of the SDK.

    Returns:
        list of string.
    """
    base = [part for part in [ctx.label.workspace_root, ctx.label.package] if part]
    return ["/".join(base + [include]) for include in includes]
