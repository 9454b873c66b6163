"""What all actions of the rules have in common."""

load("//rules/facts:environment.bzl", "ENVIRONMENT")

# Path mapping is enabled.
ACTION = {
    "env": ENVIRONMENT,
    "execution_requirements": {"supports-path-mapping": "1"},
}

def package_path(file):
    """The path of a source file within its package: the same in every workspace.

    Args:
        file: File, a source file.

    Returns:
        string, a relative path.
    """
    package = file.owner.package
    path = file.short_path
    if path.startswith("../"):
        path = path.split("/", 2)[2]
    return path[len(package) + 1:] if package else path

def dirname(file):
    """The directory of a file, for `Args.add_all(map_each = dirname)`.

    Args:
        file: File, a marker that stands in the directory to name.

    Returns:
        string, a path after path mapping.
    """
    return file.dirname
