"""Names in the driver's code say what they are: pronouns and participles, which name anything, may only get fewer."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[2] / "py_driver"
TEMPLATES = PACKAGE / "resources"

LOOPS = {"one": 0, "some": 0, "made": 0, "given": 0, "place": 16, "said": 0, "those": 0, "whole": 0}
"""How many loops and comprehensions still run with a variable of that name; may only sink."""

OTHERS = {"one": 0, "some": 0, "made": 3, "given": 0, "place": 14, "said": 0, "those": 0, "whole": 2}
"""How many other variables and parameters still have that name; may only sink."""


def _targets(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """The names that a file binds, each with whether a loop or a comprehension does."""
    looped = {
        id(name)
        for node in ast.walk(tree)
        if isinstance(node, (ast.For, ast.comprehension))
        for name in ast.walk(node.target)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, id(node) in looped
        elif isinstance(node, ast.arg):
            yield node.arg, False


def _counts(tree: ast.AST, *, loops: bool) -> Counter[str]:
    return Counter(name for name, is_looped in _targets(tree) if is_looped is loops and name in LOOPS)


@pytest.mark.parametrize(("allowed", "loops"), [(LOOPS, True), (OTHERS, False)], ids=["loops", "others"])
def test_vague_names_get_fewer(allowed: dict[str, int], loops: bool) -> None:  # noqa: FBT001  (a parameter)
    found: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        if not path.is_relative_to(TEMPLATES):
            found += _counts(ast.parse(path.read_text(encoding="utf-8")), loops=loops)
    counts = {name: found[name] for name in allowed}
    assert counts == allowed, "name what it is (STYLE.md, Names); if fewer are left, lower the number"


def test_every_way_to_bind_a_name_is_counted() -> None:
    text = """
def f(one, *some, made=None, **given):
    whole: int = 1
    with one as place, one as (said, those):
        pass
    one = (some := 3)
    for made, (given, *rest) in one: [place for place in one for _ in place]
    lambda those: whole
"""
    tree = ast.parse(text)
    assert _counts(tree, loops=True) == {"made": 1, "given": 1, "place": 1}
    others = {"one": 2, "some": 2, "made": 1, "given": 1, "whole": 1, "place": 1, "said": 1, "those": 2}
    assert _counts(tree, loops=False) == others
