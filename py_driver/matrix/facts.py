"""The facts that Starlark and the driver share: the literals of rules/facts, which both read."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, Any

from py_driver.errors import Code, error
from py_driver.matrix.installation import module_root

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def facts(file: str) -> Mapping[str, Any]:
    """The constants of a file, by name.

    Args:
        file: a file of rules/facts, without its suffix.

    Raises:
        DriverError: SET_UP if it is missing or damaged, so the installation is broken; see `module_root`.
    """
    path = module_root() / "rules" / "facts" / f"{file}.bzl"
    try:
        found = {
            target.id: ast.literal_eval(statement.value)
            for statement in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Name)
        }
    except (OSError, ValueError, SyntaxError):
        found = {}
    if not found:
        raise error(Code.SET_UP, f"{path} is missing or damaged", help="reinstall rules-torch-kernels")
    return found
