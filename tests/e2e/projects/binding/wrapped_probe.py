"""Prints, as JSON, what the module `wrapped` raises, and which warnings it issues where: the same whoever made the module."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import threading
import warnings
from pathlib import Path

import torch
import wrapped

FAILURES = [
    "out_of_range",
    "invalid_argument",
    "domain_error",
    "length_error",
    "range_error",
    "overflow_error",
    "bad_alloc",
    "runtime_error",
    "registered",
    "number",
    "value",
    "index",
    "type",
    "check",
    "check_value",
    "check_index",
    "check_type",
    "check_not",
    "view",
    "nothing",
]
CALLS = [
    *(f"wrapped.{name}({how!r})" for name in ("fails", "fails_without_lock", "fails_plain") for how in FAILURES),
    *(f"wrapped.{name}({how!r})" for name in ("warns", "warns_without_lock") for how in (0, 1, 2)),
    *(f"wrapped.warns(1, {how!r})" for how in ("verbatim", "out_of_range", "registered", "check_index", "number")),
    "wrapped.warns(1, 'value')",
    *(f"wrapped.warns(count=True, how={how!r})" for how in ("", "view")),
    "wrapped.warns_strict(1)",
    "wrapped.warns_strict(1, how='type')",
    "wrapped.warns('a')",
    "wrapped.again(1)",
    "wrapped.again(0)",
    "wrapped.Counter().add()",
    "wrapped.Counter().add(2), wrapped.Counter().add(more=3)",
    "wrapped.Counter().add_without_lock(2)",
    "wrapped.Counter().get()",
    "wrapped.Counter().count",
    "wrapped.Counter.warns()",
    *(f"wrapped.{name}(1)" for name in ("inner", "of_lambda", "of_function", "caught")),
    *(f"wrapped.inner(2, {how!r})" for how in ("out_of_range", "registered", "value", "view", "check_index")),
    *(f"(answer('wrapped.{name}(2)'), wrapped.reached())" for name in ("inner", "caught", "of_lambda")),
    "[wrapped.caught(1) for _ in range(3)], answer('wrapped.of_lambda(1)')",
    "wrapped.Counter(1).get()",
    "wrapped.Counter().inner(1)",
    "wrapped.Counter().warned",
    "wrapped.Counter.inner_static(1)",
    "list(map(wrapped.of_lambda, [0, 1]))",
    "in_thread(lambda: answer('wrapped.of_function(1)'))",
    "wrapped.inner('a')",
    "(out := torch.zeros(2), wrapped.anonymous(out), out)",
    "[wrapped.warns(1) for _ in range(2)]",
    "(lambda: wrapped.warns(1))()",
    "list(map(wrapped.warns, [0, 1]))",
    "sorted([2, 1], key=wrapped.warns)",
    "in_thread(lambda: wrapped.warns(1))",
    "wrapped.fails.__doc__",
    "wrapped.warns.__doc__",
]
FILTERS = ("always", "error", "default", "once", "ignore")


def in_thread(call: object) -> list[object]:
    """What a call returns in another thread."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(call()))  # type: ignore[operator]
    thread.start()
    thread.join()
    return results


def answer(expression: str) -> str:
    """What an expression is, or its error."""
    try:
        return repr(eval(expression))  # noqa: S307
    except Exception as problem:  # noqa: BLE001  (every kind is an answer)
        said = str(problem).partition("\nException raised from")[0]
        return f"{type(problem).__module__}.{type(problem).__name__}: {said}"


def said(message: object) -> str:
    """A warning without the directory of the source."""
    return str(message).replace(str(Path(wrapped.__file__).parent), "").replace("at /", "at ")


def main() -> None:
    """Print the answers."""
    answers: dict[str, object] = {}
    for expression in CALLS:
        for kind in FILTERS:
            printed = io.StringIO()
            with warnings.catch_warnings(record=True) as issued, contextlib.redirect_stderr(printed):
                warnings.simplefilter(kind)  # type: ignore[arg-type]
                result = answer(expression)
            places = [(said(one.message), one.category.__name__, Path(one.filename).name, one.lineno) for one in issued]
            errors = [said(line) for line in printed.getvalue().splitlines() if line.startswith(("UserW", "Deprec"))]
            answers[f"{kind}: {expression}"] = [said(result), places, errors]
    json.dump(answers, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
