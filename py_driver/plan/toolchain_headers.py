"""The headers of the toolchains, as far as they are known without fetching them."""

from __future__ import annotations

import re
from functools import cache

import tomli

from py_driver.resources import resource


def may_be_of_a_toolchain(path: str) -> bool:
    """Whether an include's path may belong to CUDA, ROCm, torch, a compiler or the C library."""
    names, patterns, folders = _known()
    folder, slash, _ = path.partition("/")
    if slash:
        return folder in folders
    return "." not in path or path in names or patterns.fullmatch(path) is not None


@cache
def _known() -> tuple[frozenset[str], re.Pattern[str], frozenset[str]]:
    facts = tomli.loads(resource("toolchain_headers.toml"))
    return frozenset(facts["names"]), re.compile("|".join(facts["patterns"])), frozenset(facts["folders"])
