"""The page of a build's report, and the same data as JSON beside it: paths and rendering."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

from py_driver.actions.executed import Did
from py_driver.actions.phases import words_of
from py_driver.bazel.invocation import kept_results
from py_driver.errors import Code, error
from py_driver.output import printable
from py_driver.reporting.html import check_place, draw
from py_driver.reporting.svg import widest
from py_driver.resources import resource
from py_driver.system.files import is_file, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.actions.executed import VariantAction, VariantActions
    from py_driver.actions.rerun_reasons import Calls
    from py_driver.output import Output
    from py_driver.reporting.report import Action, Part, Report


def check_page(page: Path) -> None:
    """Create the directory of a report, and refuse a path that cannot hold one, before anything is built.

    Raises:
        DriverError: FOREIGN_FILE or PERMISSION.
    """
    facts = page.with_suffix(".json")
    if is_file(facts) and not is_file(page):
        message = f"{facts} exists, and {page} does not: it may not be a report"
        raise error(Code.FOREIGN_FILE, message, help="move it away, or choose another name for the report")
    check_place(page, facts)


def own_page(page: Path, project: str, taken: set[Path]) -> Path:
    """The page of one of several projects, beside the page that the user names: `build-relu.html`.

    Args:
        page: the page that the user names.
        project: the name of its Python package.
        taken: pages of other projects; this page is added.

    Raises:
        DriverError: see `check_page`.
    """
    names = (f"{page.stem}-{project}{more}" for more in ("", *(f"-{number}" for number in range(2, len(taken) + 3))))
    own = next(path for name in names if (path := page.with_stem(name)) not in taken)
    taken.add(own)
    check_page(own)
    return own


def write_report(  # noqa: PLR0913  (the data, the page and the output)
    page: Path,
    name: str,
    variants: Sequence[VariantActions],
    actions: Sequence[VariantAction],
    earlier: Calls,
    output: Output,
) -> None:
    """Write a page, and the same data as JSON beside it.

    Args:
        page: its path.
        name: the name of the project.
        variants: the counts of each variant.
        actions: the actions of all variants.
        earlier: the calls in the last build with a report.
        output: where to print the paths.

    Raises:
        DriverError: see `system.files.write`.
    """
    from py_driver.reporting.report import as_json, make_report  # noqa: PLC0415  (few builds need it)

    report = make_report(name, variants, actions, _action_output, earlier)
    facts = page.with_suffix(".json")
    write(page, as_html(report, resource("report.html.j2")).encode())
    write(facts, f"{json.dumps(as_json(report), indent=2)}\n".encode())
    output.say(f"wrote {printable(str(page))} and {printable(str(facts))}")


def _action_output(digest: str) -> bytes | None:
    """The content of an action's output, by its SHA-256; None if it is not kept."""
    try:
        return (kept_results() / "cas" / digest[:2] / digest).read_bytes()
    except OSError:
        return None


def columns(report: Report) -> list[str]:
    """The variants, each beside the one with which it shares most actions."""
    has: dict[str, set[int]] = {variant.variant: set() for variant in report.variants}
    for at, action in enumerate(report.actions):
        for part in action.variants:
            has[part.variant].add(at)
    left = list(has)
    placed = left[:1]
    while left := [name for name in left if name not in placed]:
        placed.append(max(left, key=lambda name: len(has[name] & has[placed[-1]])))
    return placed


def runs(action: Action, names: Sequence[str]) -> list[list[tuple[int, Part]]]:
    """An action's parts, by the index of their column; adjacent columns share a list."""
    parts = {part.variant: part for part in action.variants}
    own = [(at, parts[name]) for at, name in enumerate(names) if name in parts]
    return [[pair for _, pair in group] for _, group in groupby(enumerate(own), lambda pair: pair[1][0] - pair[0])]


def as_html(report: Report, template: str) -> str:
    """Render a report as a self-contained page.

    Args:
        report: the report of a build.
        template: `resources/report.html.j2`.
    """
    names = columns(report)
    drawn = [(action, runs(action, names)) for action in report.actions]
    line = report.timeline
    return draw(
        template,
        report=report,
        columns=names,
        drawn=drawn,
        kinds=list(Did),
        widest=widest,
        words=words_of,
        ticks=ticks(line.seconds) if line else [],
        critical=[bar for bar in line.bars if bar.critical] if line else [],
    )


def ticks(seconds: float) -> list[float]:
    """Points of a time line to label, from 0: at most eight, at steps of 1, 2 or 5 times a power of ten."""
    pace = next(
        pace for power in range(-3, 9) for pace in (10**power, 2 * 10**power, 5 * 10**power) if pace * 7 >= seconds
    )
    return [at * pace for at in range(8) if at * pace <= seconds]
