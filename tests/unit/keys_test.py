"""Each key that a user's matrix and a tuning space may have stands in code that reads it, besides its declaration."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TYPES = {"bool", "int", "list", "str"}
READERS = {
    "py_driver/matrix/user_matrix.py": ("py_driver/matrix/**/*.py", "toolchains/**/*.bzl"),
    "py_driver/tuning/space.py": ("py_driver/tuning/*.py",),
}
"""Where keys are declared, and where they are read."""

READS_ITSELF = {"py_driver/tuning/space.py"}
"""Files that read what they declare; the other one only checks it."""


def strings(tree: ast.AST) -> list[ast.Constant]:
    """The string literals in code."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def declarations(tree: ast.Module) -> list[ast.Constant]:
    """The keys that a module declares: of dictionaries of types, and in constants called `..._KEYS`."""
    tables = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    entries = [pair for table in tables for pair in zip(table.keys, table.values, strict=True)]
    typed = [key for key, value in entries if key and isinstance(value, ast.Name) and value.id in TYPES]
    constants = [node for node in tree.body if isinstance(node, ast.AnnAssign) and node.value]
    listed = [node.value for node in constants if ast.unparse(node.target).endswith("_KEYS") and node.value]
    return [key for node in (*typed, *listed) for key in strings(node)]


@pytest.mark.parametrize("file", READERS)
def test_every_declared_key_is_read(file: str) -> None:
    paths = {path for pattern in READERS[file] for path in ROOT.glob(pattern)}
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    own = ROOT / file
    keys = declarations(trees[own])
    assert keys
    elsewhere = [word.value for path, tree in trees.items() if path != own for word in strings(tree)]
    here = [word.value for word in strings(trees[own]) if word not in keys] if file in READS_ITSELF else []
    faults = [
        f"`{key.value!s}` is declared in {file}, and no code reads it"
        for key in keys
        if key.value not in {*elsewhere, *here}
    ]
    assert not faults, "\n".join(faults)
