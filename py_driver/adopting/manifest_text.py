"""The build.toml of a kernel that was a project with a setup.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.adopting.sections import Section

_WIDTH = 118


class Head(NamedTuple):
    """The general facts in a build.toml.

    Attributes:
        name: the name of the kernel.
        version: the version of its interface.
        license: the Hub's identifier.
        backends: `cpu`, `cuda`.
        origin: the project that it was adopted from.
        binding: the files of the binding.
        extensions: extensions of the package's files; empty for the default.
    """

    name: str
    version: int
    license: str
    backends: tuple[str, ...]
    origin: str
    binding: tuple[str, ...]
    extensions: tuple[str, ...]


def manifest_text(head: Head, sections: Sequence[Section]) -> str:
    """The text of a build.toml.

    Args:
        head: the general facts.
        sections: its kernel sections.
    """
    lines = [
        f"# Adopted from {head.origin} by `driver adopt`.",
        "[general]",
        f"name = {_value(head.name)}",
        f"version = {head.version}",
        "edition = 5",
        f"license = {_value(head.license)}",
        f"backends = {_value(head.backends)}",
        "",
        "[torch]",
        f"src = {_value(head.binding)}",
        'include = ["."]',
        *([f"pyext = {_value(head.extensions)}"] if head.extensions else []),
    ]
    for section in sections:
        lines += [
            "",
            f"[kernel.{section.name}]",
            f"backend = {_value(section.backend)}",
            f"depends = {_value(section.depends)}",
            *([f"include = {_value(section.include)}"] if section.include else []),
            *([f"cxx-flags = {_value(section.cxx_flags)}"] if section.cxx_flags else []),
            *([f"cuda-flags = {_value(section.cuda_flags)}"] if section.cuda_flags else []),
            *([f"cuda-capabilities = {_value(section.capabilities)}"] if section.capabilities else []),
            f"src = {_value((*section.sources, *section.headers))}",
        ]
    return "\n".join(lines) + "\n"


def _value(value: str | Sequence[str]) -> str:
    """A string or a list of strings in TOML; a long list has an item on each line."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    items = [_value(item) for item in value]
    short = f"[{', '.join(items)}]"
    return short if len(short) < _WIDTH - 20 else "[\n" + "".join(f"    {item},\n" for item in items) + "]"
