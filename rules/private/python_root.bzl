"""The directory of a Python package within its Bazel package."""

load(":actions.bzl", "package_path")
load(":errors.bzl", "fail_with")

def python_root(ctx):
    """The prefix that `python_root` stands for.

    Args:
        ctx: rule context, with the attribute `python_root`.

    Returns:
        string, a directory with a slash behind it; empty for the directory of the Bazel package.
    """
    root = ctx.attr.python_root.removesuffix("/")
    return "" if root in ["", "."] else root + "/"

def below_root(ctx, attribute, file):
    """The path of a file below `python_root`.

    Args:
        ctx: see `python_root`.
        attribute: string, the attribute that names the file.
        file: File.

    Returns:
        string, a relative path.
    """
    path = package_path(file)
    root = python_root(ctx)
    if not path.startswith(root):
        fail_with(ctx.label, attribute, "`%s` is not below `%s`" % (path, root), "move it, or set `python_root`")
    return path.removeprefix(root)
