"""What tests share is in tests/helpers, which pyproject.toml puts on the path: no test imports another."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


@cache
def trees() -> dict[str, ast.Module]:
    """The files of the tests, by their paths among these."""
    return {
        path.relative_to(TESTS).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(TESTS.rglob("*.py"))
        if "projects" not in path.parts
    }


def imported(tree: ast.AST) -> set[str]:
    """The names of the modules that a file imports."""
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_no_test_imports_another() -> None:
    found = {(file, name) for file, tree in trees().items() for name in imported(tree)}
    assert ("helpers/tuned.py", "hub") in found
    assert not {(file, name) for file, name in found if name.endswith(("_test", "conftest"))}


def test_only_programs_change_the_path() -> None:
    nodes = ((file, node) for file, tree in trees().items() for node in ast.walk(tree))
    changed = {file for file, node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path"}
    assert changed == {"helpers/engine.py", "release.py", "run.py"}
