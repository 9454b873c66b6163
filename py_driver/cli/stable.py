"""`driver stable`: which uses of torch's C++ API have an equivalent in its stable ABI, and since which torch."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.cli import add_command, aside, run_command_line
from py_driver.cli.arguments import releases_of
from py_driver.errors import Code, DriverError, ExitCode, error
from py_driver.output import annotation
from py_driver.plan.project import MANIFEST
from py_driver.publishing.card_files import TESTS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from py_driver.cli import Subparsers
    from py_driver.inspecting.release_facts import ReleaseFacts
    from py_driver.inspecting.stable_project import FixedProject
    from py_driver.inspecting.stable_uses import Use
    from py_driver.output import Output

_SOURCES: Final = (
    *(".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hh", ".hip", ".hpp", ".hxx"),
    *(".inc", ".inl", ".ipp", ".tcc", ".tpp"),
)
"""As in rules/private/tools/compile/sources.zig."""

_HIDDEN: Final = "."
_BUILT: Final = "build"


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "stable",
        "relu",
        "relu --fix",
        more="It reads the sources of a build.toml or of a setup.py as text, and compiles nothing. "
        "With --fix, the exit code is 1 if something is left to do by hand.",
    )
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", type=Path, default=[Path()], help="a source or a directory (default: .)"
    )
    fix = parser.group("run")
    fix.add_argument("--fix", action="store_true", help="rewrite in place what needs no decision, and list the rest")
    fix.add_argument("--force", action="store_true", help="with --fix: also write files with uncommitted changes")
    fix.add_argument(
        "--build",
        action="store_true",
        help="with --fix: build for the CPU before and after, compare ops, functions and exports, run the tests, and "
        "undo if something differs or fails",
    )
    fix.add_argument("--torch", metavar="M.N", help="with --build: run with this torch release, as in `driver test`")
    report = parser.group("report")
    report.add_argument("--annotations", action="store_const", const="github", help="also print annotations for GitHub")
    report.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Show the uses; the exit code.

    Raises:
        DriverError: FILE_MISSING if a path does not exist or has no source; PERMISSION if a source cannot be read;
            DIRTY_TREE if a file to write has uncommitted changes; USAGE for --build without --fix, or with a path
            that has no build.toml; with --build, see `cpu_facts`.
    """
    if args.build and not (args.fix and all((path / MANIFEST).is_file() for path in args.paths)):
        advice = "`driver stable DIR --fix --build`, where DIR has a build.toml"
        raise error(Code.USAGE, "--build is for --fix and projects with a build.toml", help=advice)
    return _fix(args, output) if args.fix else _show(args, output)


def _show(args: argparse.Namespace, output: Output) -> int:
    """Show the uses."""
    from py_driver.inspecting.stable_uses import macros_of, stable_uses

    uses: list[Use] = []
    for path in args.paths:
        texts = {source: _text(source) for source in _sources(path)}
        own = frozenset[str]().union(*map(macros_of, texts.values()))
        uses += itertools.chain.from_iterable(stable_uses(texts[source], str(source), own=own) for source in texts)
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
    for name, advice in {use.name: use.instead for use in missing if use.instead}.items():
        output.data(f"{name}: {advice}")
    if not uses:
        output.data("no use of torch's C++ API outside of its stable ABI was found")
        return ExitCode.OK
    verdict = f"{len(missing)} of {len(uses)} uses have no known equivalent in the stable ABI"
    output.data(f"{verdict}; the others have one from torch {since} on" if since else verdict)
    return ExitCode.OK


def _text(source: Path) -> str:
    """The text of a source.

    Raises:
        DriverError: PERMISSION.
    """
    try:
        return source.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        message = f"cannot read {source}: {problem.strerror}"
        raise error(Code.PERMISSION, message, help="name a source that you may read") from None


def _fix(args: argparse.Namespace, output: Output) -> int:
    """Rewrite sources, and show what is left; the exit code is that of a finding if something is."""
    from py_driver.inspecting.stable_project import fix_project

    before = _built(args, output)
    projects = [
        fix_project(
            _sources(path), next(iter(path.glob("build.toml")), None) if path.is_dir() else None, force=args.force
        )
        for path in args.paths
    ]
    files = {path: fixed for project in projects for path, fixed in project.files.items()}
    undone = {
        str(path): why
        for path, project in zip(args.paths, projects, strict=True)
        if path in before and (why := _changed(path, project, before[path], args, output))
    }
    left = [use for fixed in files.values() for use in fixed.left]
    refused = {path: fixed.refused for path, fixed in files.items() if fixed.refused}
    written = [
        path
        for directory, project in zip(args.paths, projects, strict=True)
        for path in project.written
        if str(directory) not in undone
    ]
    since = max((project.since for project in projects if project.since), key=_numbers, default="")
    code = ExitCode.DIFFERENCE if left or refused or undone else ExitCode.OK
    if args.json:
        output.json(
            {
                "uses": sum(fixed.uses for fixed in files.values()),
                "since": since,
                "written": [str(path) for path in written],
                "undone": undone,
                "refused": {str(path): reason for path, reason in refused.items()},
                "left": [
                    {
                        "file": use.span.file,
                        "line": use.span.line,
                        "column": use.span.column,
                        "use": use.name,
                        "reason": use.reason,
                        "instead": use.instead,
                    }
                    for use in left
                ],
            }
        )
        return code
    _tell(args, projects, written, undone, output)
    return code


def _tell(
    args: argparse.Namespace,
    projects: Sequence[FixedProject],
    written: Sequence[Path],
    undone: Mapping[str, str],
    output: Output,
) -> None:
    """Show what became of projects."""
    files = {path: fixed for project in projects for path, fixed in project.files.items()}
    left = [use for fixed in files.values() for use in fixed.left]
    since = max((project.since for project in projects if project.since), key=_numbers, default="")
    if args.annotations:
        for use in left:
            output.data(annotation("warning", f"`{use.name}`: {use.reason}", use.span, "stable ABI"))
    rows = [(f"{use.span.file}:{use.span.line}", use.name, use.reason, use.instead or "-") for use in left]
    if rows:
        output.table(("source", "left", "why", "what people do instead"), rows)
    for line in _outcomes(args, projects, written, undone):
        output.data(line)
    if not files:
        output.data("no use of torch's C++ API outside of its stable ABI was found")
        return
    total = sum(fixed.uses for fixed in files.values())
    verdict = f"{len(left)} of {total} uses are left to do by hand"
    output.data(f"{verdict}; the others have an equivalent from torch {since} on" if since else verdict)


def _outcomes(
    args: argparse.Namespace, projects: Sequence[FixedProject], written: Sequence[Path], undone: Mapping[str, str]
) -> Iterator[str]:
    """What was written, undone, refused and not built, a line for each."""
    yield from (f"written: {path}" for path in written)
    yield from (f"undone: {directory}: {why}" for directory, why in undone.items())
    for directory, project in zip(args.paths, projects, strict=True):
        for path, fixed in project.files.items():
            if fixed.refused:
                yield f"not written: {path}: {fixed.refused}"
        if project.note:
            yield f"build.toml: {project.note}"
        if args.build and not project.done:
            yield f"not built: {directory}: something is left to do by hand"


def _built(args: argparse.Namespace, output: Output) -> dict[Path, ReleaseFacts]:
    """With --build, what the projects offer as they are."""
    if not args.build:
        return {}
    from py_driver.inspecting.stable_build import cpu_facts

    releases = releases_of(args)
    return {path: cpu_facts(path, args.torch, releases, output) for path in args.paths}


def _changed(path: Path, project: FixedProject, before: ReleaseFacts, args: argparse.Namespace, output: Output) -> str:
    """Why a rewritten project was undone; empty if it offers the same and passes its tests, or is not to be built."""
    from py_driver.inspecting.stable_build import cpu_facts, differences

    if not project.done or not project.written:
        return ""
    try:
        why = "; ".join(differences(before, cpu_facts(path, args.torch, releases_of(args), output)))
        if not why and (path / TESTS).is_dir():
            with aside():
                code = run_command_line(
                    ["test", str(path), "--backend", "cpu", *([f"--torch={args.torch}"] if args.torch else [])], output
                )
            why = f"its tests fail: exit code {code}" if code else ""
    except DriverError as failure:
        output.fail(failure)
        why = f"it is not built: {failure.diagnostics[0].code.number}"
    except BaseException:
        project.undo()
        raise
    if why:
        project.undo()
    return why


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
    return {**known, "equivalent": use.equivalent and use.equivalent._asdict(), "instead": use.instead}


def _numbers(version: str) -> tuple[int, ...]:
    return (*map(int, version.split(".")),)
