"""The tests of a project that `driver stable --fix --build` rewrites: which of them fail, and which failed before."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.etree import ElementTree as ET

from py_driver.cli import aside, run_command_line
from py_driver.output import counted

if TYPE_CHECKING:
    from py_driver.output import Output

_LONGEST: Final = 5
"""The most tests that a message names."""


class Outcome(NamedTuple):
    """The outcome of a run of a project's tests.

    Attributes:
        code: the exit code.
        failed: the tests that failed.
    """

    code: int
    failed: frozenset[str]


def run_tests(directory: Path, torch: str, output: Output) -> Outcome:
    """Run the tests of a project on the CPU.

    Args:
        directory: the directory of the project.
        torch: the release to run them with; empty for the installed one.
        output: where to print; the output of the tests goes to stderr.

    Raises:
        DriverError: see `driver test`.
    """
    chosen = [f"--torch={torch}"] if torch else []
    with tempfile.TemporaryDirectory() as scratch, aside():
        report = Path(scratch) / "tests.xml"
        code = run_command_line(
            ["test", str(directory), "--backend=cpu", *chosen, "--", "--maxfail=0", f"--junitxml={report}"], output
        )
        return Outcome(code, _failed(report))


def _failed(report: Path) -> frozenset[str]:
    """The failed tests in a report of pytest; empty if there is no report."""
    try:
        cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314  (pytest wrote it)
    except (OSError, ET.ParseError):
        return frozenset()
    return frozenset(
        ".".join(filter(None, (case.get("classname"), case.get("name"))))
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    )


def blame(before: Outcome, after: Outcome, torch: str) -> str:
    """Why a rewriting has to be undone, as a text to follow `its tests`; empty if it made no test fail.

    Args:
        before: the outcome with the original sources.
        after: the outcome with the rewritten sources, a failure.
        torch: the torch of the run, for people.
    """
    if not before.code:
        return f"fail with {torch}: exit code {after.code}"
    if fresh := after.failed - before.failed:
        return f"fail with {torch} where they did not before: {listed(fresh)}"
    if after.code != before.code:
        return f"end with exit code {after.code} with {torch}, and with {before.code} before"
    return ""


def listed(tests: frozenset[str]) -> str:
    """Names of tests; only the first of many."""
    names = sorted(tests)
    more = len(names) - _LONGEST
    return ", ".join(names[:_LONGEST]) + (f" and {counted(more, 'other')}" if more > 0 else "")
