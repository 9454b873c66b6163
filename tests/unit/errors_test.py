"""Every error has a text, an example and somebody who raises it; what one lacks is said in a sentence."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest
import tomli

from py_driver.errors import Code

ROOT = Path(__file__).parents[2]
INVALID = ROOT / "tests" / "invalid"
TEXTS = tomli.loads((ROOT / "py_driver" / "resources" / "codes.toml").read_text(encoding="utf-8"))
KEYS = ("title", "text")
NUMBERS = {code.number for code in Code}
SHOWN = {number for number in NUMBERS if number < "E200"} | {"E202", "E203", "E204"}
"""The errors that a project alone can show."""


def raised() -> set[str]:
    """The names of the errors that the driver makes: `Code.NAME`, but for what it is compared with."""
    paths = [path for path in (ROOT / "py_driver").rglob("*.py") if "resources" not in path.parts]
    nodes: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    found = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Code":
            found.add(node.attr)
        nodes += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.Compare)]
    return found


def test_every_error_has_a_text() -> None:
    faults = [f"{code.number} {code.name} has no text in codes.toml" for code in Code if code.number not in TEXTS]
    faults += [f"[{number}] of codes.toml is no error of errors.py" for number in TEXTS if number not in NUMBERS]
    for number, table in TEXTS.items():
        faults += [f"[{number}] of codes.toml has no `{key}`" for key in KEYS if key not in table]
        faults += [f"`{key}` in [{number}] of codes.toml is not read" for key in table if key not in KEYS]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("file", "numbers"), [("errors.py", [code.number for code in Code]), ("codes.toml", list(TEXTS))]
)
def test_errors_stand_in_order(file: str, numbers: list[str]) -> None:
    faults = [f"{late} stands after {early} in {file}" for early, late in pairwise(numbers) if early >= late]
    assert not faults, "\n".join(faults)


def test_no_error_has_two_names() -> None:
    """Python takes a second member of an Enum with the same value for another name of the first."""
    names = Code.__members__.items()
    faults = [f"{name} has the number of {code.name}" for name, code in names if name != code.name]
    assert not faults, "\n".join(faults)


def test_every_error_of_the_manifest_has_a_project() -> None:
    shown = {path.name.partition("-")[0] for path in INVALID.iterdir() if path.is_dir()}
    faults = [f"{number} has no project tests/invalid/{number}-*" for number in sorted(SHOWN - shown)]
    faults += [f"tests/invalid/{number}-* is of no such error" for number in sorted(shown - SHOWN)]
    assert not faults, "\n".join(faults)


def test_every_error_is_raised() -> None:
    names = raised()
    faults = [f"nothing in py_driver raises {code.number} {code.name}" for code in Code if code.name not in names]
    assert not faults, "\n".join(faults)
