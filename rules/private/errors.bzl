"""Errors of the rules: they name the target, the attribute and a remedy."""

def fail_with(label, attribute, problem, help):
    """Ends the analysis with a message in the project's form.

    Args:
        label: Label of the target that is wrong.
        attribute: string, the attribute that is wrong.
        problem: string, what is wrong with it.
        help: string, what to do.
    """
    fail("\n%s: attribute `%s`: %s\n  help: %s" % (label, attribute, problem, help))
