"""Validates the JSON of commands by the schemas of `driver schema`."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from py_driver.cli.results import declared, make_result_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jsonschema import Draft7Validator


@cache
def _validator(command: str) -> Draft7Validator:
    from jsonschema import Draft7Validator  # noqa: PLC0415  (it takes seconds, and all tests import this module)

    return Draft7Validator(make_result_schema(command))


def faults(command: str, value: Any) -> list[str]:  # noqa: ANN401  (JSON)
    """The violations of a command's schema by a result."""
    if command not in declared()["commands"]:
        return [f"`driver {command}` has no schema in results.toml"]
    from jsonschema.exceptions import best_match  # noqa: PLC0415  (likewise)

    problem = best_match(_validator(command).iter_errors(value))
    while problem is not None and problem.context:
        # The alternative whose first violation is deepest.
        problem = max(problem.context, key=lambda inner: len(inner.absolute_path))
    return [] if problem is None else [f"`driver {command}`: {problem.json_path}: {problem.message[:2000]}"]


def validate(words: Sequence[object], text: str) -> None:
    """Validate the JSON output of a driver, if there is any.

    Args:
        words: its command line.
        text: its output on stdout.
    """
    own = [str(word) for word in words]
    own = own[: own.index("--")] if "--" in own else own
    if "--json" in own and text.strip():
        assert faults(own[0], json.loads(text)) == []
