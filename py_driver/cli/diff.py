"""`driver diff`: what differs between two releases of a kernel or package, and what of it breaks callers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of
from py_driver.errors import ExitCode
from py_driver.output import counted

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output

_LONGEST: Final = 60


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    from py_driver.cli.build import positive

    parser = add_command(
        subparsers,
        "diff",
        "older/relu relu",
        "thing-1.0-py3-none-manylinux_2_28_x86_64.whl dist/thing-1.1-py3-none-manylinux_2_28_x86_64.whl --breaking",
        more="A and B are projects with built variants, variants, wheels, installed packages or libraries. Nothing of "
        "them is loaded or run.",
    )
    parser.add_argument("old", metavar="A", type=Path, help="the release that callers have")
    parser.add_argument("new", metavar="B", type=Path, help="the release that they are to have")
    parser.add_argument(
        "--breaking",
        action="store_true",
        help="show what breaks callers only; exit code 1 if something does and B is no new major version",
    )
    report = parser.group("report")
    report.add_argument("--rows", metavar="N", type=positive, default=40, help="the most rows to show (default: 40)")
    report.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Show the changes; the exit code.

    Raises:
        DriverError: see `release_facts`.
    """
    from py_driver.inspecting.disassembler import demangled
    from py_driver.inspecting.recorded_symbols import Recorded
    from py_driver.inspecting.release_changes import is_new_major, release_changes
    from py_driver.inspecting.release_facts import release_facts

    recorded = Recorded(releases_of(args))
    old, new = release_facts(args.old, recorded), release_facts(args.new, recorded)
    changes = release_changes(old, new)
    broken = [change for change in changes if change.breaking]
    major = is_new_major(old.version, new.version)
    code = ExitCode.DIFFERENCE if args.breaking and broken and not major else ExitCode.OK
    shown = broken if args.breaking else changes
    if args.json:
        output.json(
            {
                "before": old.version,
                "after": new.version,
                "new-major": major,
                "breaking": len(broken),
                "changes": [change.as_json() for change in shown],
            }
        )
        return code

    def cell(text: str) -> str:
        line = " ".join(text.split())
        return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."

    def named(subject: str) -> str:
        library, colon, name = subject.rpartition(": ")
        return f"{library}{colon}{cell(demangled(name))}"

    if shown:
        rows = [
            [change.kind, named(change.subject), cell(change.before), cell(change.after), change.breaking]
            for change in shown[: args.rows]
        ]
        output.table(("kind", "of", "before", "after", "breaks callers"), rows)
        if left := len(shown) - len(rows):
            output.data(f"{left} more: `--rows {len(shown)}` shows them")
    ending = ", which a new major version may do" if major and broken else ""
    output.data(f"{counted(len(changes), 'change')}, {len(broken)} of them break callers{ending}")
    return code
