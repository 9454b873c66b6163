"""Undefined symbols whose names are in C, in assembly, or in a file of the project that is not compiled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.manifest.paths import HEADERS, OTHER_SOURCES, SOURCES
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.actions.author_paths import BuiltProject

_WORD: Final = re.compile(rb"[A-Za-z_]\w{2,}")
_SIZE: Final = 1024 * 1024


def plain_sources(project: BuiltProject) -> dict[str, frozenset[str]]:
    """The words of each listed file that defines symbols by plain names, or is not compiled.

    Args:
        project: the built project.
    """
    groups = project.plan.groups
    names = {name for group in groups for name in group.sources if name.endswith(OTHER_SOURCES)}
    names |= {name for group in groups for name in group.headers if not name.endswith((*HEADERS, *SOURCES))}
    found = {}
    for name in sorted(names):
        path = project.plan.path_of(project.directory, name)
        if is_file(path) and path.stat().st_size <= _SIZE:
            found[name] = frozenset(word.decode() for word in _WORD.findall(path.read_bytes()))
    return found


def plainly_defined(symbol: str, files: Mapping[str, frozenset[str]]) -> list[str]:
    """Advice on an undefined symbol whose name such files contain.

    Args:
        symbol: its name in C++, with parameters, or its plain name.
        files: the result of `plain_sources`.
    """
    found = []
    called = symbol.partition("(")[0].rpartition("::")[2]
    for name, words in files.items():
        is_compiled = name.endswith(OTHER_SOURCES)
        for word in sorted(words):
            if word == called != symbol and is_compiled:
                found.append(f'`{name}` has `{word}`, as a C symbol: declare it with `extern "C"` where C++ calls it')
            elif word == symbol and not is_compiled:
                found.append(f"`{name}` has `{word}`, and is not compiled: {' '.join(SOURCES)} are")
    return found
