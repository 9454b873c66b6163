"""`driver size`: shows the sizes of the parts of built libraries, possible savings, and changes between builds."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_of
from py_driver.errors import Code, ExitCode, error
from py_driver.output import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from py_driver.cli import Subparsers
    from py_driver.inspecting.compression import Compressed
    from py_driver.inspecting.measured import Measured
    from py_driver.inspecting.savings import Saving
    from py_driver.inspecting.size import Library
    from py_driver.inspecting.size_changes import Change
    from py_driver.inspecting.size_groups import Group
    from py_driver.output import Output

_WORDS: Final = ("slice", "section", "arch", "kernel", "instance", "function", "saving")
_COMPARED: Final = ("section", "arch", "instance")
"""The tables of `--compare`."""

_ROWS: Final = 15
_MOST: Final = 1 << 26
"""The most bytes of device code that are compressed without being asked: a minute's work."""

_ARCHS: Final = 8
_SAME: Final = "same"


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    from py_driver.cli.build import positive

    parser = add_command(
        subparsers,
        "size",
        "my-kernel --by kernel",
        "relu_ops.so --compare older/relu_ops.so",
        more="Each byte of a library is counted once, so the rows of a table add up to the size of the files.",
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        type=Path,
        default=[Path()],
        help="a project with built variants, a library, a wheel, or a directory of them (default: .)",
    )
    parser.add_argument(
        "--slice",
        action="store_true",
        help="also measure the slices of projects, in build-slices/ (default: build/ only)",
    )
    show = parser.group("show")
    show.add_argument(
        "--by",
        choices=_WORDS,
        help="show only this table; instance: kernels with template arguments; function: functions of the CPU; "
        "saving: possible savings",
    )
    show.add_argument(
        "--rows", metavar="N", type=positive, default=_ROWS, help=f"show the N largest rows (default: {_ROWS})"
    )
    parser.group("compare").add_argument(
        "--compare",
        metavar="PATH",
        type=Path,
        help="compare with an earlier build: a library, a wheel, or a directory of them",
    )
    report = parser.group("report")
    report.add_argument("--svg", metavar="FILE", type=Path, help="also write a treemap, as an SVG picture")
    report.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Show sizes; returns the exit code.

    Raises:
        DriverError: USAGE; see `measured`; NO_SPACE or PERMISSION if the picture cannot be written.
    """
    from py_driver.inspecting.measured import measured

    if args.compare is not None and args.by not in {None, *_COMPARED}:
        message = f"--compare has no table `{args.by}`"
        raise error(Code.USAGE, message, help=f"its tables are {', '.join(_COMPARED)}")
    found = measured(args.paths, slices=args.slice)
    if args.svg is not None:
        _draw(args.svg, found)
    if args.compare is not None:
        return _compare(args, measured([args.compare], slices=args.slice), found, output)
    if args.json:
        output.json({**_as_json(found), "savings": [saving.as_json() for saving in _savings(args, found, output)]})
        return ExitCode.OK
    _show(args, found, output)
    return ExitCode.OK


def _draw(path: Path, found: Sequence[Measured]) -> None:
    """Write the treemap.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    from py_driver.inspecting.size_picture import picture
    from py_driver.system.files import write

    name = found[0].name.rpartition("/")[2] if len(found) == 1 else f"{len(found)} libraries"
    write(path, picture([each.library for each in found], name).encode())


def _show(args: argparse.Namespace, found: Sequence[Measured], output: Output) -> None:
    """Print tables.

    Raises:
        DriverError: see `_savings`.
    """
    from py_driver.inspecting.packed import ZSTANDARD_LIBRARY

    libraries = [each.library for each in found]
    if not args.by:
        for each in found:
            output.data(f"{each.name}: {_bytes(each.library.size)}{_packed(each)}")
    for word in [args.by] if args.by else _usual(libraries):
        if not args.by:
            output.data("")
        if word == "saving":
            _show_savings(_savings(args, found, output), output)
        elif groups := _tables()[word](libraries):
            _table(word, groups, sum(library.size for library in libraries), args.rows, output)
    if unknown := sum(not image.unpacked for library in libraries for image in library.images):
        output.warn(f"contents of {counted(unknown, 'image')} not shown: this machine has no {ZSTANDARD_LIBRARY}")
    if args.by in {None, "kernel", "instance"} and any(image.packing for each in libraries for image in each.images):
        output.say("~ marks a share: compressed code is stored in one piece")


def _usual(libraries: Sequence[Library]) -> list[str]:
    """The tables that are shown without `--by`."""
    device = any(library.images for library in libraries)
    tables = ["section", "arch", "kernel", "saving"] if device else ["section", "function"]
    return ["slice", *tables] if any(library.slice for library in libraries) else tables


def _tables() -> dict[str, Callable[[Sequence[Library]], list[Group]]]:
    """The function for the groups of each table."""
    from py_driver.inspecting.size_groups import by_arch, by_function, by_instance, by_kernel, by_section, by_slice

    return dict(zip(_WORDS, (by_slice, by_section, by_arch, by_kernel, by_instance, by_function), strict=False))


def _savings(args: argparse.Namespace, found: Sequence[Measured], output: Output) -> list[Saving]:
    """The possible savings.

    Raises:
        DriverError: see `compressed`.
    """
    from py_driver.inspecting.compression import compressed, totals
    from py_driver.inspecting.savings import savings_of

    releases = releases_of(args)
    packed: list[Compressed] = []
    packable = [each for each in found if each.is_elf and each.library.images]
    total = sum(image.size for each in packable for image in each.library.images)
    if is_large := total > _MOST and not (args.by or args.json):
        output.say(f"compression is not tried, for {_bytes(total)} of device code: `--by saving` does")
    if is_large or not packable:
        return savings_of([each.library for each in found], packed, releases.matrix.known["cuda"].families)
    with output.task("compressing device code") as task:
        for number, each in enumerate(packable, 1):
            task.update(f"{number} of {len(packable)}")
            packed += each.opened(partial(compressed, releases=releases, version=each.cuda))
    return savings_of([each.library for each in found], totals(packed), releases.matrix.known["cuda"].families)


def _as_json(found: Sequence[Measured]) -> dict[str, Any]:
    """Sizes as a value for JSON: of all libraries together, and of each library."""
    tables = _tables()
    by_slice = tables.pop("slice")

    def groups(libraries: Sequence[Library]) -> dict[str, Any]:
        return {
            "bytes": sum(library.size for library in libraries),
            **{f"{word}s": [group.as_json() for group in group_by(libraries)] for word, group_by in tables.items()},
        }

    libraries = [each.library for each in found]
    return {
        "slices": [group.as_json() for group in by_slice(libraries)],
        **groups(libraries),
        "libraries": [
            {
                "file": each.name,
                "packed": each.packed,
                "slice": each.library.slice,
                **groups([each.library]),
                "images": [image._asdict() for image in each.library.images],
            }
            for each in found
        ],
    }


def _table(word: str, groups: Sequence[Group], total: int, rows: int, output: Output) -> None:
    """Print a table, whose last row sums up the rows that are left out."""
    device = word in {"arch", "kernel", "instance"}
    more = {
        "slice": ["libraries", "archs"],
        "arch": ["code", "images"],
        "kernel": ["instances", "archs"],
        "instance": ["archs"],
    }
    head = [word, *more.get(word, ["has"]), "bytes", "share", *(["unpacked"] if device else [])]

    def row(group: Group) -> list[str]:
        own = {
            "slice": [str(group.members), _archs(group.archs)],
            "arch": [group.kind, str(group.members)],
            "kernel": [str(group.members or ""), _archs(group.archs)],
            "instance": [_archs(group.archs)],
        }.get(word, [group.kind])
        stored = f"{'' if group.exact else '~'}{_number(group.stored)}"
        return [group.name, *own, stored, _share(group.stored, total), *([_number(group.size)] if device else [])]

    shown, left = groups[:rows], groups[rows:]
    cells = [row(group) for group in shown]
    if left:
        rest = shown[0]._replace(
            name=f"{len(left)} more",
            kind="",
            stored=sum(group.stored for group in left),
            size=sum(group.size for group in left),
            exact=all(group.exact for group in left),
            members=sum(group.members for group in left),
            archs=(),
        )
        cells.append(row(rest))
    output.table(head, cells, right=[head.index(name) for name in (*_RIGHT,) if name in head])


_RIGHT: Final = ("libraries", "images", "instances", "bytes", "share", "unpacked")


def _show_savings(savings: Sequence[Saving], output: Output) -> None:
    """Print the possible savings."""
    if not savings:
        output.data("no known way saves bytes of device code")
        return
    rows = [
        [
            f"{saving.kind} {saving.subject}".rstrip(),
            f"{'' if saving.exact else '~'}{_number(saving.bytes)}",
            saving.how,
        ]
        for saving in savings
    ]
    output.table(("to save", "bytes", "how"), rows, right=(1,))


def _compare(args: argparse.Namespace, old: Sequence[Measured], new: Sequence[Measured], output: Output) -> int:
    """Show the differences from another build; DIFFERENCE if there are any."""
    from py_driver.inspecting.size_changes import changes_of

    libraries = [[each.library for each in build] for build in (old, new)]
    changes = changes_of(*libraries)
    before, after = (sum(library.size for library in own) for own in libraries)
    differs = any(change.verdict != _SAME for own in changes.values() for change in own)
    if args.json:
        shown = {word: [change.as_json() for change in own] for word, own in changes.items()}
        output.json({"before": before, "after": after, "difference": after - before, **shown})
        return ExitCode.DIFFERENCE if differs else ExitCode.OK
    output.data(f"{_bytes(before)} before, {_bytes(after)} after: {after - before:+,}")
    for word, own in changes.items():
        if args.by in {None, word.removesuffix("s")}:
            _show_changes(
                word.removesuffix("s"), [change for change in own if change.verdict != _SAME], args.rows, output
            )
    return ExitCode.DIFFERENCE if differs else ExitCode.OK


def _show_changes(word: str, changes: Sequence[Change], rows: int, output: Output) -> None:
    """Print the changes of one kind."""
    if not changes:
        return
    output.data("")
    cells = [
        [
            change.name,
            change.kind,
            change.verdict,
            _known(change.before),
            _known(change.after),
            f"{change.difference:+,}",
        ]
        for change in changes[:rows]
    ]
    if left := changes[rows:]:
        cells.append([f"{len(left)} more", "", "", "", "", f"{sum(change.difference for change in left):+,}"])
    output.table((word, "has", "change", "before", "after", "bytes"), cells, right=(3, 4, 5))


def _archs(archs: Sequence[str]) -> str:
    """Architectures in a cell; only their number if there are many."""
    return ",".join(archs) if len(archs) <= _ARCHS else f"{len(archs)} architectures"


def _packed(each: Measured) -> str:
    return f", {_bytes(each.packed)} in the wheel" if each.packed is not None else ""


def _share(stored: int, total: int) -> str:
    return f"{100 * stored / total:.1f}%" if total else ""


def _known(number: int | None) -> str:
    return "-" if number is None else _number(number)


def _bytes(number: int) -> str:
    return f"{_number(number)} bytes"


def _number(number: int) -> str:
    return f"{number:,}"
