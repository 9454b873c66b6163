"""Python files of a package that this Python cannot compile.

A build loads a variant only where a torch for it is installed, so a mistake in such a file could reach users.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from py_driver.errors import Note
from py_driver.manifest.locate import Source
from py_driver.manifest.text import is_small_file

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
        if not name.endswith(".py") or not is_small_file(path):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of invalid escape sequences
                compile(path.read_bytes(), name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            source = Source(str(path), path.read_text(encoding="utf-8", errors="replace"))
            start = source.start(getattr(problem, "lineno", None) or 1)
            python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
            what = getattr(problem, "msg", None) or str(problem) or "it is nested too deeply"
            notes.append(
                Note(message=f"{python} cannot import this file: {what}", span=source.span(start, len(source.text)))
            )
    return notes
