"""GPU architectures as torch's build tools read them from the environment: `8.0;9.0+PTX`, `Hopper`, `gfx90a;gfx942`."""

from __future__ import annotations

import re
from typing import Final

import tomli

from py_driver.matrix.backends import ARCH
from py_driver.resources import resource

_SEPARATORS: Final = re.compile(r"[;,\s]+")


def listed_archs(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The unique architectures of a list, as build.toml spells them, and the unknown words.

    A GPU runs the code for its architecture with or without PTX beside it: `+PTX` makes no difference here.
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
