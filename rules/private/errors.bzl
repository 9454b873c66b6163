"""Errors of the rules: they name the target, the attribute and a remedy."""

load(":actions.bzl", "package_path")

def fail_with(label, attribute, problem, help):
    """Ends the analysis with a message in the project's form.

    Args:
        label: Label of the target that is wrong.
        attribute: string, the attribute that is wrong.
        problem: string, what is wrong with it.
        help: string, what to do.
    """
    fail("\n%s: attribute `%s`: %s\n  help: %s" % (label, attribute, problem, help))

def is_identifier(name):
    """Whether a text is a name in C++ and Python, of letters, digits and `_`.

    Args:
        name: string.

    Returns:
        bool.
    """
    return bool(name) and not name[0].isdigit() and name.replace("_", "a").isalnum()

def check_paths(label, attribute, files, help):
    """Fails if two files have the same path in their packages.

    Args:
        label: Label of the target.
        attribute: string, the attribute that names the files.
        files: list of File.
        help: string, what to do.
    """
    owners = {}
    for file in files:
        other = owners.setdefault(package_path(file), file)
        if other != file:
            problem = "`%s` and `%s` have the same path in their packages" % (other.owner, file.owner)
            fail_with(label, attribute, problem, help)
