"""What `driver check` says of Python files that cannot be imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from relu import write
from tree import write_files

from py_driver.matrix.releases import Releases
from py_driver.plan.project import load
from py_driver.plan.syntax_notes import syntax_notes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("import torch\n\ndef f(:\n    pass\n", (3, "def f(:"), "invalid syntax"),
        ("x = 1\n  y = 2\n", (2, "  y = 2"), "unexpected indent"),
        ("return 1\n", (1, "return 1"), "'return' outside function"),
        ('x = "\n', (1, 'x = "'), "unterminated string literal"),
        ("x = (\n", (1, "x = ("), "'(' was never closed"),
        ("x\0 = 1\n", (1, "x\0 = 1"), "null bytes"),
        (f"x = {'(' * 2000}\n", (1, f"x = {'(' * 2000}"), "too many nested"),
    ],
)
def test_a_file_with_a_syntax_error_has_a_note(tmp_path: Path, text: str, place: tuple[int, str], message: str) -> None:
    write_files(write(tmp_path), {"torch-ext/relu/__init__.py": text})
    [note] = syntax_notes(load(tmp_path, Releases()))
    assert message in note.message
    assert note.span
    assert (note.span.line, note.span.text[note.span.column - 1 :][: note.span.length]) == place


@pytest.mark.parametrize("text", ["", "x = '\\d'\n", "\ufeffx = 1\n", "# coding: latin-1\nx = 'a'\n", "match = 1\n"])
def test_other_files_have_none(tmp_path: Path, text: str) -> None:
    write_files(write(tmp_path), {"torch-ext/relu/__init__.py": text})
    assert syntax_notes(load(tmp_path, Releases())) == []
