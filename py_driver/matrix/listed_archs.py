"""GPU architectures as torch's build tools take them from the environment: `8.0;9.0+PTX`, `Hopper`, `gfx90a;gfx942`."""

from __future__ import annotations

import re
from typing import Final

import tomli

from py_driver.matrix.backends import ARCH
from py_driver.resources import resource

_SEPARATORS: Final = re.compile(r"[;,\s]+")


def listed_archs(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The architectures of a list, each once, as build.toml spells them, and the words that are none.

    A GPU of an architecture runs the code for it, with PTX beside that or without: `+PTX` makes no difference here.
    """
    named = tomli.loads(resource("torch_archs.toml"))["archs"]
    known: dict[str, None] = {}
    unknown = []
    for word in filter(None, _SEPARATORS.split(text)):
        for arch in named.get(word, [word.removesuffix("+PTX")]):
            if re.fullmatch(ARCH, arch):
                known[arch] = None
            else:
                unknown.append(word)
    return tuple(known), tuple(unknown)
