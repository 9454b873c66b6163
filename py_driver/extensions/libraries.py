"""The libraries that extension modules may link."""

from __future__ import annotations

from functools import cache

from py_driver.matrix.installation import module_root


@cache
def _known_libraries() -> frozenset[str]:
    """The libraries that extensions may need, named as after `-l`: those of rules/private/policy/libraries.txt."""
    lines = (module_root() / "rules" / "private" / "policy" / "libraries.txt").read_text(encoding="utf-8").splitlines()
    names = (line.split()[0] for line in lines if line.strip() and not line.startswith("#"))
    return frozenset(name.partition(".so")[0].removeprefix("lib") for name in names)


def is_known_library(name: str) -> bool:
    """Whether extensions may need a library; a module may also name torch's library for Python.

    Args:
        name: the name, as after `-l`.
    """
    return name in _known_libraries() or name in {"torch_python", "python3", "gomp", "stdc++", "c10d", "cudadevrt"}
