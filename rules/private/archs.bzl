"""The check of architectures: a compiler would name a wrong one in its own words, or not at all."""

load(":cuda.bzl", "arch_number")
load(":errors.bzl", "fail_with")

def _is_capability(arch):
    """Whether an architecture is spelled as `8.0`, `9.0a` or `10.0+PTX`."""
    major, _, minor = arch.removesuffix("+PTX").partition(".")
    return major.isdigit() and minor[:1].isdigit() and minor[1:] in ["", "a", "f"]

def _is_gfx(arch):
    """Whether an architecture is spelled as `gfx942` or `gfx90a:xnack-`."""
    return arch.startswith("gfx") and arch[len("gfx"):].replace(":", "").replace("+", "").replace("-", "").isalnum()

_IS_SPELLED = {"cuda": _is_capability, "rocm": _is_gfx}

def check_archs(label, kind, archs, backend, known = []):
    """Fails if the attribute `archs` has an entry that is no architecture, unknown to the toolkit, or there twice.

    Args:
        label: Label of the target.
        kind: string, `cuda` or `rocm`.
        archs: list of string, the architectures.
        backend: struct, the facts of the backend: `title` and `example`.
        known: list of string, the architectures that the toolkit supports; empty if that is unknown.
    """
    supported = [arch_number(name) for name in known]
    numbers = {}
    for arch in archs:
        if not _IS_SPELLED[kind](arch):
            problem = "`%s` is not an architecture of %s" % (arch, backend.title)
            fail_with(label, "archs", problem, "write it as in \"%s\"" % backend.example)
        if known and arch_number(arch).rstrip("af") not in supported:
            problem = "`%s` is unknown to the variant's release of %s" % (arch, backend.title)
            fail_with(label, "archs", problem, "choose from " + ", ".join(known))
        number = arch_number(arch)
        if number in numbers:
            fail_with(label, "archs", "`%s` and `%s` are one architecture" % (numbers[number], arch), "remove one")
        numbers[number] = arch
