"""The facts that Starlark and the driver share: the literals of rules/facts, which both read."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, Any

from py_driver.matrix.installation import module_root

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def facts(file: str) -> Mapping[str, Any]:
    """The constants of a file, by their names.

    Args:
        file: of rules/facts, without its suffix.

    Raises:
        DriverError: see `module_root`.
    """
    text = (module_root() / "rules" / "facts" / f"{file}.bzl").read_text(encoding="utf-8")
    found = {}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Name):
            found[target.id] = ast.literal_eval(statement.value)
    return found
