"""Private attributes that several rules have."""

def tool(name):
    """A program of ours, which actions run.

    Args:
        name: string, of its target in `//rules/private/tools`.

    Returns:
        attribute.
    """
    return attr.label(default = Label("//rules/private/tools:" + name), executable = True, cfg = "exec")

def include(name):
    """A file of `//rules/private/include`.

    Args:
        name: string, of the file.

    Returns:
        attribute.
    """
    return attr.label(default = Label("//rules/private/include:" + name), allow_single_file = True)
