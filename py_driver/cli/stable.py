"""`driver stable`: which uses of torch's C++ API have an equivalent in its stable ABI, and since which torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.cli import add_command
from py_driver.errors import Code, ExitCode, error
from py_driver.output import annotation

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from py_driver.cli import Subparsers
    from py_driver.inspecting.stable_uses import Use
    from py_driver.output import Output

_SOURCES: Final = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".hip")
_HIDDEN: Final = "."
_BUILT: Final = "build"


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "stable",
        "relu",
        "relu/torch-ext/torch_binding.cpp --json",
        more="Sources are read as text and not compiled: the sources of a build.toml or of a setup.py alike.",
    )
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", type=Path, default=[Path()], help="a source or a directory (default: .)"
    )
    report = parser.group("report")
    report.add_argument("--annotations", action="store_const", const="github", help="also print annotations for GitHub")
    report.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Show the uses; the exit code.

    Raises:
        DriverError: FILE_MISSING if a path does not exist or has no source; PERMISSION if a source cannot be read.
    """
    from py_driver.inspecting.stable_uses import stable_uses

    uses: list[Use] = []
    for path in args.paths:
        for source in _sources(path):
            try:
                text = source.read_text(encoding="utf-8", errors="replace")
            except OSError as problem:
                message = f"cannot read {source}: {problem.strerror}"
                raise error(Code.PERMISSION, message, help="name a source that you may read") from None
            uses += stable_uses(text, str(source))
    missing = [use for use in uses if use.equivalent is None]
    since = max((use.equivalent.since for use in uses if use.equivalent), key=_numbers, default="")
    if args.json:
        output.json({"uses": [_as_json(use) for use in uses], "missing": len(missing), "since": since})
        return ExitCode.OK
    if args.annotations:
        for use in uses:
            output.data(annotation("notice", _told(use), use.span, "stable ABI"))
    rows = [[f"{use.span.file}:{use.span.line}", use.name, *_cells(use)] for use in uses]
    if rows:
        output.table(("source", "use", "stable equivalent", "since torch"), rows)
    if not uses:
        output.data("no use of torch's C++ API outside of its stable ABI was found")
        return ExitCode.OK
    verdict = f"{len(missing)} of {len(uses)} uses have no known equivalent in the stable ABI"
    output.data(f"{verdict}; the others have one from torch {since} on" if since else verdict)
    return ExitCode.OK


def _sources(path: Path) -> Sequence[Path]:
    """The sources that a path means; hidden directories and `build` left out.

    Raises:
        DriverError: FILE_MISSING.
    """
    if path.is_file():
        return [path]
    below = sorted(source for source in path.rglob("*") if source.suffix in _SOURCES and source.is_file())
    found = [
        source
        for source in below
        if not any(part.startswith(_HIDDEN) or part == _BUILT for part in source.relative_to(path).parts[:-1])
    ]
    if not found:
        message = f"{path} has no source of C++ or CUDA" if path.is_dir() else f"{path} does not exist"
        raise error(Code.FILE_MISSING, message, help="name a project or a source")
    return found


def _cells(use: Use) -> tuple[str, str]:
    return (use.equivalent.stable, use.equivalent.since) if use.equivalent else ("none is known", "-")


def _told(use: Use) -> str:
    """A use in a sentence."""
    if use.equivalent is None:
        return f"`{use.name}` has no known equivalent in torch's stable ABI"
    return f"`{use.name}`: `{use.equivalent.stable}` of <{use.equivalent.header}>, since torch {use.equivalent.since}"


def _as_json(use: Use) -> dict[str, object]:
    """A use as a value for JSON."""
    span = use.span
    known = {"file": span.file, "line": span.line, "column": span.column, "use": use.name}
    return {**known, "equivalent": use.equivalent and use.equivalent._asdict()}


def _numbers(version: str) -> tuple[int, ...]:
    return (*map(int, version.split(".")),)
