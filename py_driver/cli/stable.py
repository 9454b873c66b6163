"""`driver stable`: shows which uses of torch's C++ API have an equivalent in its stable ABI, and since which torch."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.cli import add_command
from py_driver.cli.arguments import releases_listed, releases_of
from py_driver.errors import Code, DriverError, ExitCode, error
from py_driver.output import annotation
from py_driver.plan.projects import is_extension, is_project
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
"""The suffixes of rules/private/tools/compile/sources.zig."""

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
    fix.add_argument("--fix", action="store_true", help="rewrite all uses that need no decision, and list the others")
    fix.add_argument("--force", action="store_true", help="with --fix: also write files with uncommitted changes")
    fix.add_argument(
        "--build",
        action="store_true",
        help="with --fix: build for the CPU before and after, against the first and the last torch release, compare "
        "ops, functions and exports, run the tests, and undo if something differs or a test fails that passed before",
    )
    fix.add_argument(
        "--torch",
        metavar="M.N",
        action="extend",
        default=[],
        type=releases_listed,
        help="with --build: install these torch releases, e.g. 2.10,2.15, and run the tests with each (default: the "
        "torch of the first python3)",
    )
    report = parser.group("report").add_mutually_exclusive_group()
    report.add_argument(
        "--annotations",
        choices=("github",),
        nargs="?",
        const="github",
        help="also print annotations of GitHub Actions to stdout",
    )
    report.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Show the uses; returns the exit code.

    Raises:
        DriverError: FILE_MISSING if a path does not exist or has no source; PERMISSION if a source cannot be read;
            DIRTY_TREE if a file to write has uncommitted changes; USAGE for --build without --fix, or with a path
            that is not a project, for --torch without --build, and for --force without --fix; with --build, see
            `cpu_releases` and `cpu_facts`.
    """
    if args.build and not (args.fix and all(is_project(path) or is_extension(path) for path in args.paths)):
        advice = "`driver stable DIR --fix --build`, where DIR has a build.toml or a setup.py"
        raise error(Code.USAGE, "--build is for --fix and for projects", help=advice)
    if args.force and not args.fix:
        raise error(Code.USAGE, "--force is for the files that --fix writes", help="add --fix")
    if args.torch and not args.build:
        raise error(Code.USAGE, "--torch is for the tests of --build", help="add --fix --build")
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
    """Rewrite sources, and show the remaining uses; returns DIFFERENCE if there are any."""
    from py_driver.inspecting.stable_project import fix_project

    before = _built(args, output)
    projects = [
        fix_project(
            _sources(path), next(iter(path.glob("build.toml")), None) if path.is_dir() else None, force=args.force
        )
        for path in args.paths
    ]
    files = {path: fixed for project in projects for path, fixed in project.files.items()}
    trials = {
        path: _tried(path, project, before[path], args, output)
        for path, project in zip(args.paths, projects, strict=True)
        if path in before and project.done and project.written
    }
    undone = {str(path): trial.why for path, trial in trials.items() if trial.why}
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
                "built": {str(path): trial.as_json() for path, trial in trials.items() if not trial.why},
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
    _tell(args, projects, written, trials, output)
    return code


def _tell(
    args: argparse.Namespace,
    projects: Sequence[FixedProject],
    written: Sequence[Path],
    trials: Mapping[Path, _Trial],
    output: Output,
) -> None:
    """Show the outcome for projects."""
    files = {path: fixed for project in projects for path, fixed in project.files.items()}
    left = [use for fixed in files.values() for use in fixed.left]
    since = max((project.since for project in projects if project.since), key=_numbers, default="")
    if args.annotations:
        for use in left:
            output.data(annotation("warning", f"`{use.name}`: {use.reason}", use.span, "stable ABI"))
    rows = [(f"{use.span.file}:{use.span.line}", use.name, use.reason, use.instead or "-") for use in left]
    if rows:
        output.table(("source", "left", "why", "what people do instead"), rows)
    for line in _outcomes(args, projects, written, trials):
        output.data(line)
    if not files:
        output.data("no use of torch's C++ API outside of its stable ABI was found")
        return
    total = sum(fixed.uses for fixed in files.values())
    verdict = f"{len(left)} of {total} uses are left to do by hand"
    output.data(f"{verdict}; the others have an equivalent from torch {since} on" if since else verdict)


def _outcomes(
    args: argparse.Namespace, projects: Sequence[FixedProject], written: Sequence[Path], trials: Mapping[Path, _Trial]
) -> Iterator[str]:
    """The written, built, undone, refused and skipped parts, a line for each."""
    yield from (f"written: {path}" for path in written)
    for directory, trial in trials.items():
        yield f"undone: {directory}: {trial.why}" if trial.why else f"built: {directory}: {trial.told}"
    for directory, project in zip(args.paths, projects, strict=True):
        for path, fixed in project.files.items():
            if fixed.refused:
                yield f"not written: {path}: {fixed.refused}"
        if project.note:
            yield f"build.toml: {project.note}"
        if args.build and directory not in trials:
            why = "something is left to do by hand" if not project.done else "there is nothing to rewrite"
            yield f"not built: {directory}: {why}"


class _Trial(NamedTuple):
    """The outcome of building a rewritten project.

    Attributes:
        torch: the first and the last release that it is compiled against; one entry if they are the same.
        tests: the directory of its tests; empty without any.
        tested: the releases that the tests ran with; an empty entry is the installed torch.
        why: why the rewriting was undone; empty if the builds offer the same, and no test fails that passed before.
        failed: the tests that fail as they did before.
    """

    torch: Sequence[str]
    tests: str
    tested: Sequence[str]
    why: str
    failed: frozenset[str] = frozenset()

    @property
    def told(self) -> str:
        """The result, for people."""
        from py_driver.cli.stable_tests import listed

        torch = f"torch {' and '.join(self.torch)}"
        own = f"torch {' and '.join(self.tested)}" if any(self.tested) else "the installed torch"
        passed = f"its {self.tests} pass with {own}" if self.tests else "it has no tests"
        failed = f"with {own} the same of its {self.tests} fail as before: {listed(self.failed)}"
        tested = failed if self.failed else passed
        return f"compiled against {torch}, its ops, functions and exports are as before; {tested}"

    def as_json(self) -> dict[str, object]:
        """The trial as a value for JSON."""
        return {"torch": self.torch, "tested": self.tested, "failed": sorted(self.failed)}


def _built(args: argparse.Namespace, output: Output) -> dict[Path, ReleaseFacts]:
    """The API of the projects before the rewriting, with --build."""
    if not args.build:
        return {}
    from py_driver.authoring.machine import this_machine
    from py_driver.inspecting.stable_build import cpu_facts, cpu_releases

    releases = releases_of(args)
    if not args.torch and any(map(_tests, args.paths)):
        this_machine()  # raises an error if no torch is installed
    return {path: cpu_facts(path, cpu_releases(path, releases)[-1], releases, output) for path in args.paths}


def _tried(path: Path, project: FixedProject, before: ReleaseFacts, args: argparse.Namespace, output: Output) -> _Trial:
    """Build and test a rewritten project; undo the rewriting if its API changed or a test fails."""
    from py_driver.inspecting.stable_build import cpu_facts, cpu_releases, differences, unloadable

    tests = _tests(path)
    trial = _Trial((), tests, args.torch or [""] if tests else (), "")
    try:
        releases = releases_of(args)
        every = cpu_releases(path, releases, project.since)
        trial = trial._replace(torch=[*dict.fromkeys((every[0], every[-1]))])
        for torch in trial.torch:
            after = cpu_facts(path, torch, releases, output)
            found = [f"compiled against torch {torch}, {found}" for found in differences(before, after)]
            found += unloadable(after, every) if torch == every[0] else []
            if found:
                trial = trial._replace(why="; ".join(found))
                break
        for torch in () if trial.why else trial.tested:
            why, failed = _test(path, project, torch, output)
            trial = trial._replace(why=f"its {tests} {why}" if why else "", failed=trial.failed | failed)
            if why:
                break
    except DriverError as failure:
        output.fail(failure)
        trial = trial._replace(why=f"it is not built: {failure.diagnostics[0].code.number}")
    except BaseException:
        project.undo()
        raise
    if trial.why:
        project.undo()
    return trial


def _test(path: Path, project: FixedProject, torch: str, output: Output) -> tuple[str, frozenset[str]]:
    """Why the tests forbid a rewriting, empty if they do not, and the tests that failed before it as well."""
    from py_driver.cli.stable_tests import blame, run_tests

    after = run_tests(path, torch, output)
    if not after.code:
        return "", frozenset()
    named = f"torch {torch}" if torch else "the installed torch"
    output.say(f"tests fail with {named}: running them with the sources as they were")
    with project.undone():
        before = run_tests(path, torch, output)
    return blame(before, after, named), after.failed or frozenset({f"exit code {after.code}"})


def _tests(path: Path) -> str:
    """The name of the directory with a project's tests; empty without one."""
    from py_driver.authoring.extension_session import TESTS as OF_SETUP_PY

    return next((name for name in ([TESTS] if is_project(path) else OF_SETUP_PY) if (path / name).is_dir()), "")


def _sources(path: Path) -> Sequence[Path]:
    """The sources at or below a path, without hidden directories and `build`.

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
    """A use as a sentence."""
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
