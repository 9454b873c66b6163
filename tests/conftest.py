"""What all tests have: each result that a driver in the test's own process prints as JSON fits the command's schema.

`clone.Driver` validates what a driver in a process of its own prints.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from results import faults

from py_driver import __main__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from py_driver.output import Output


@pytest.fixture(scope="session", autouse=True)
def _results_fit_their_schemas() -> Iterator[None]:
    """Validate the output of command lines with `--json`; `main` does not catch the exception of `pytest.fail`."""
    run = __main__._run  # noqa: SLF001

    def validated(arguments: Sequence[str], output: Output) -> int:
        found: list[str] = []
        plain = output.json

        def show(value: object) -> None:
            plain(value)
            if "--json" in arguments:
                found.extend(faults(arguments[0], json.loads(json.dumps(value))))

        output.json = show  # type: ignore[method-assign]
        code = run(arguments, output)
        if found:
            pytest.fail("\n".join(found))
        return code

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(__main__, "_run", validated)
        yield
