"""What `driver check` says of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from layer_cases import CASES, HEAD
from relu import write
from tree import write_files

from py_driver.matrix.releases import Releases
from py_driver.plan.layer_notes import layer_notes
from py_driver.plan.project import load

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.errors import Note

IMPORT = "from . import layers\n"
RIGHT = HEAD + CASES["right"].text


def noted(directory: Path, text: str, init: str = IMPORT, name: str = "layers.py") -> list[Note]:
    write_files(write(directory), {f"torch-ext/relu/{name}": text, "torch-ext/relu/__init__.py": init})
    return layer_notes(load(directory, Releases()))


def word(note: Note) -> str:
    """What a note points at."""
    return note.span.text[note.span.column - 1 :][: note.span.length] if note.span else ""


@pytest.mark.parametrize("name", CASES)
def test_each_broken_rule_has_a_note(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    notes = noted(tmp_path, HEAD + case.text)
    assert len(notes) == len(case.notes), notes
    for note, part in zip(notes, case.notes, strict=True):
        assert part in note.message
    assert any("refuses" in note.message for note in notes) == case.refused


@pytest.mark.parametrize(
    ("name", "place"),
    [("constructor", "__init__"), ("method", "more"), ("constant", "eps = 1e-5"), ("no-layer", "L"), ("no-flags", "L")],
)
def test_a_note_points_at_the_member(tmp_path: Path, name: str, place: str) -> None:
    assert word(noted(tmp_path, HEAD + CASES[name].text)[0]) == place


@pytest.mark.parametrize("init", ["", "from ._ops import ops\n", "import layers_of_others\n"])
def test_layers_that_the_package_does_not_import_are_not_found(tmp_path: Path, init: str) -> None:
    [note] = noted(tmp_path, RIGHT, init)
    assert "does not import `layers`" in note.message


@pytest.mark.parametrize(
    "init",
    [
        IMPORT,
        "from .layers import L\n",
        "from . import *\n",
        "def __getattr__(name): ...\n",
        "import importlib\nlayers = importlib.import_module('.layers', __name__)\n",
        "syntax error\n",
    ],
    ids=["module", "class", "star", "lazy", "importlib", "no-python"],
)
def test_imports_of_all_kinds_are_seen(tmp_path: Path, init: str) -> None:
    assert noted(tmp_path, RIGHT, init) == []


@pytest.mark.parametrize(
    "text",
    [
        "def layer(x): ...\n",
        "class _Private(nn.Module):\n    eps = 1\n",
        "class Config:\n    eps = 1\n",
        "from .base import Base\n\nclass L(Base):\n    eps = 1\n",
        "class L(nn.Module:\n",
    ],
    ids=["function", "private", "no-layer", "unknown-base", "no-python"],
)
def test_what_is_no_layer_or_unknown_has_no_note(tmp_path: Path, text: str) -> None:
    assert noted(tmp_path, text, "") == []


def test_layers_of_a_package_are_looked_at(tmp_path: Path) -> None:
    [note] = noted(tmp_path, HEAD + CASES["method"].text, name="layers/__init__.py")
    assert word(note) == "more"


def test_without_layers_there_is_no_note(tmp_path: Path) -> None:
    assert layer_notes(load(write(tmp_path), Releases())) == []
