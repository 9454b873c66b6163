"""`driver diff`: the differences between two releases of a kernel or package, and which of them break callers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.cli import add_command
from py_driver.cli.arguments import add_repository, check_repository, releases_of
from py_driver.errors import Code, ExitCode, error
from py_driver.output import counted

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.inspecting.release_facts import ReleaseFacts
    from py_driver.output import Output

_LONGEST: Final = 60
ROWS: Final = 40
"""The default number of rows of changes."""


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    from py_driver.cli.build import positive

    parser = add_command(
        subparsers,
        "diff",
        "older/relu relu",
        "relu --published --breaking",
        more="A and B are projects with built variants, variants, wheels, installed packages or libraries. None of "
        "them is loaded.",
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="A, the earlier release, and B, the later one; only B with --since or --published",
    )
    compare = parser.group("compare")
    earlier = compare.add_mutually_exclusive_group()
    earlier.add_argument("--since", metavar="REV", help="compare with this git commit of the project, built, e.g. v1.0")
    earlier.add_argument("--published", action="store_true", help="compare with the release on the Hub")
    add_repository(compare)
    parser.add_argument(
        "--breaking",
        action="store_true",
        help="show only changes that break callers; exit code 1 if there are any and B is not a new major version",
    )
    report = parser.group("report")
    report.add_argument(
        "--rows", metavar="N", type=positive, default=ROWS, help=f"show at most N rows (default: {ROWS})"
    )
    report.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Show the changes; returns the exit code.

    Raises:
        DriverError: USAGE; see `of_commit`, `of_hub` and `release_facts`.
    """
    from py_driver.inspecting.recorded_symbols import Recorded
    from py_driver.inspecting.release_facts import release_facts

    recorded = Recorded(releases_of(args))
    with ExitStack() as stack:
        old = release_facts(_earlier(args, output, stack), recorded)
    new = release_facts(args.paths[-1], recorded)
    return show(old, new, output, breaking=args.breaking, count=args.rows, as_json=args.json)


def show(  # noqa: PLR0913  (the releases, the output, and the form)
    old: ReleaseFacts, new: ReleaseFacts, output: Output, *, breaking: bool, count: int = ROWS, as_json: bool = False
) -> int:
    """Show the differences between two releases; returns the exit code.

    Args:
        old: the earlier release.
        new: the later release.
        output: where to print.
        breaking: whether to show only changes that break callers, and to return another exit code for them.
        count: the maximum number of rows.
        as_json: whether to print JSON.
    """
    from py_driver.inspecting.disassembler import demangled
    from py_driver.inspecting.release_changes import is_new_major, release_changes

    changes = release_changes(old, new)
    broken = [change for change in changes if change.breaking]
    major = is_new_major(old.version, new.version)
    code = ExitCode.DIFFERENCE if breaking and broken and not major else ExitCode.OK
    shown = broken if breaking else changes
    if as_json:
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
            for change in shown[:count]
        ]
        output.table(("kind", "of", "before", "after", "breaks callers"), rows)
        if left := len(shown) - len(rows):
            output.data(f"{left} more: `--rows {len(shown)}` shows them")
    ending = ", which a new major version may do" if major and broken else ""
    output.data(f"{counted(len(changes), 'change')}, {len(broken)} of them break callers{ending}")
    return code


def _earlier(args: argparse.Namespace, output: Output, stack: ExitStack) -> Path:
    """The path of A, valid until the stack is closed.

    Raises:
        DriverError: USAGE if there are too many paths, or too few; see `of_commit` and `of_hub`.
    """
    from py_driver.building.variant_dir import BUILD
    from py_driver.publishing.earlier import of_commit, of_hub

    check_repository(args)
    alone = args.since is not None or args.published
    if len(args.paths) != (1 if alone else 2):
        advice = "`driver diff A B`, or `driver diff B` with --since REV or --published"
        message = f"{counted(len(args.paths), 'path')} {'is' if len(args.paths) == 1 else 'are'} given"
        raise error(Code.USAGE, message, help=advice)
    if args.since is not None:
        return stack.enter_context(of_commit(args.paths[0], args.since, releases_of(args), output))
    if args.published:
        published = of_hub(args.paths[0], releases_of(args), output, repo_id=args.repo_id, branch=args.branch)
        return stack.enter_context(published) / BUILD
    return Path(args.paths[0])
