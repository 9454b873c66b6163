"""Python files of a package that this Python cannot compile.

A build loads a variant only where a torch for it is installed, so a mistake in such a file could reach users.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from py_driver.errors import Note
from py_driver.manifest.locate import Source
from py_driver.manifest.text import SIZE_LIMIT
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from py_driver.plan.project import Project


def syntax_notes(project: Project) -> list[Note]:
    """A note for each Python file with a syntax error; no error, since a newer Python may accept the file.

    Args:
        project: a checked project.
    """
    notes = []
    for name in project.python:
        path = project.directory / name
        if not name.endswith(".py") or not is_file(path) or path.stat().st_size > SIZE_LIMIT:
            continue
        content = path.read_bytes()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of invalid escape sequences
                compile(content, name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            source = Source(str(path), content.decode(errors="replace"))
            lines = source.text.splitlines(keepends=True)
            line = min((getattr(problem, "lineno", None) or 1) - 1, max(len(lines) - 1, 0))
            start = sum(map(len, lines[:line]))
            end = start + max(len(lines[line].rstrip()), 1) if lines else 1
            python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
            what = getattr(problem, "msg", None) or str(problem) or "it is nested too deeply"
            notes.append(Note(message=f"{python} cannot import this file: {what}", span=source.span(start, end)))
    return notes
