"""A lock that a user's module adds to that of the rules."""

def own_lock(label, text, kinds):
    """The content of a user's lock, or an error.

    Args:
        label: Label of the file, for messages.
        text: string, its content.
        kinds: list of string, the kinds of releases that it may have.

    Returns:
        dict of dict, the releases by kind and version.
    """
    lock = json.decode(text, default = None)
    if type(lock) != "dict":
        _fail(label, "it is not a JSON object")
    for kind, entries in lock.items():
        if kind not in kinds:
            _fail(label, "a lock of your own has no `%s`" % kind)
        if type(entries) != "dict":
            _fail(label, "`%s` is not an object" % kind)
    return lock

def _fail(label, problem):
    """Ends the evaluation with a message."""
    fail("\n%s: attribute `lock`: %s\n  help: name the file `.lock.json` that `driver lock --matrix FILE` writes" % (label, problem))
