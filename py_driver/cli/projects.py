"""The projects of a command line, and the outcome of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from py_driver.errors import Code, DriverError, ExitCode, as_json, error
from py_driver.output import counted, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from py_driver.output import Output

T = TypeVar("T")
U = TypeVar("U")


class Outcome(NamedTuple, Generic[T]):
    """The outcome of a command for a project.

    Attributes:
        directory: the directory of the project, as on the command line.
        value: the result; None if it failed.
        failure: the error; None if there was none.
    """

    directory: Path
    value: T | None = None
    failure: DriverError | None = None

    @property
    def skipped(self) -> bool:
        """Whether there was nothing to do: no variant of the project was chosen, or it has none."""
        return self.failure is not None and self.failure.exit_code is ExitCode.SELECTION

    def described(self) -> str:
        """The outcome for a table, if there is no result: `failed: E401`."""
        codes = sorted({diagnostic.code.number for diagnostic in self.failure.diagnostics}) if self.failure else []
        return f"{'skipped' if self.skipped else 'failed'}: {', '.join(codes)}"

    def as_json(self, shown: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
        """The outcome as a value for JSON: the directory, and the shown result or the errors."""
        directory = {"directory": str(self.directory)}
        if self.failure is not None:
            return {**directory, "errors": [as_json(diagnostic) for diagnostic in self.failure.diagnostics]}
        return {**directory, **(shown(self.value) if self.value is not None else {})}


def projects_of(args: argparse.Namespace) -> list[Path] | None:
    """The projects of a command line; None if it names a single project's directory.

    Raises:
        DriverError: see `changed_files`.
    """
    from py_driver.plan.projects import find_projects, is_project, projects_below

    directories: list[Path] = args.directories
    if args.changed_since is None and len(directories) == 1:
        [only] = directories
        if is_project(only) or next(projects_below(only), None) is None:
            return None
    projects = find_projects(directories)
    if args.changed_since is None:
        return projects
    from py_driver.publishing.git import changed_files

    return [project for project in projects if changed_files(project, args.changed_since)]


def extensions_of(args: argparse.Namespace) -> list[Path]:
    """The directories of a command line with a setup.py and no build.toml."""
    from py_driver.plan.projects import is_extension

    return [directory for directory in args.directories if is_extension(directory)]


def run_extensions(
    args: argparse.Namespace,
    output: Output,
    work: Callable[[Path], int],
    others: Callable[[argparse.Namespace, Output], int],
    *,
    as_json: bool = False,
) -> int:
    """Process each project of a command line with a setup.py, and then the others; returns the exit code.

    Args:
        args: the command line.
        output: where to report why a project fails.
        work: processes a project with a setup.py; returns its exit code.
        others: the command for the other directories.
        as_json: whether the command prints JSON, which is of a single project.

    Raises:
        DriverError: what `work` raises, if the command line names one project; USAGE for `--json` with several, or
            without git for `--changed-since`; INTERRUPTED.
    """
    import argparse

    extensions = extensions_of(args)
    rest = [directory for directory in args.directories if directory not in extensions]
    is_single = len(extensions) == 1 and not rest
    if as_json and not is_single:
        raise error(Code.USAGE, "--json is for a single project with a setup.py", help=f"name {extensions[0]} alone")
    if args.changed_since is not None:
        from py_driver.publishing.git import changed_files

        extensions = [directory for directory in extensions if changed_files(directory, args.changed_since)]
    if is_single and extensions:
        return work(extensions[0])
    outcomes = for_each(extensions, work, output)
    codes = [exit_code(outcomes), *(outcome.value or 0 for outcome in outcomes)]
    if not (outcomes or rest):
        if as_json:
            output.json({"projects": []})
        output.say(f"no file of {printable(str(args.directories[0]))} differs from {printable(args.changed_since)}")
    if rest:
        # These options are only for projects with a setup.py.
        own = {"directories": rest, "binding": "", "python": []}
        codes.append(others(argparse.Namespace(**{**vars(args), **own}), output))
    return next((code for code in codes if code), 0)


def for_each(projects: Iterable[Path], work: Callable[[Path], T], output: Output) -> list[Outcome[T]]:
    """Process each project; report a failure at once, and continue with the next project.

    Raises:
        DriverError: INTERRUPTED.
    """
    return [_outcome(project, project, work, output) for project in projects]


def then(outcomes: Iterable[Outcome[T]], work: Callable[[T], U], output: Output) -> list[Outcome[U]]:
    """Process the result of each project that has not failed.

    Raises:
        DriverError: INTERRUPTED.
    """
    return [
        Outcome(outcome.directory, failure=outcome.failure)
        if outcome.value is None
        else _outcome(outcome.directory, outcome.value, work, output)
        for outcome in outcomes
    ]


def _outcome(directory: Path, value: T, work: Callable[[T], U], output: Output) -> Outcome[U]:
    try:
        return Outcome(directory, value=work(value))
    except DriverError as failure:
        if failure.diagnostics[0].code is Code.INTERRUPTED:
            raise
        outcome: Outcome[U] = Outcome(directory, failure=failure)
        if outcome.skipped:
            output.say(f"{printable(str(directory))} is skipped: {printable(failure.diagnostics[0].message)}")
        else:
            output.fail(failure)
        return outcome


def summary(outcomes: Sequence[Outcome[T]], done: str) -> str:
    """The number of projects, and which failed: `3 projects: 1 built, 1 skipped, 1 failed (b)`.

    Args:
        outcomes: the outcomes of all projects.
        done: a participle for the projects without errors.
    """
    failed = [str(outcome.directory) for outcome in outcomes if outcome.failure is not None and not outcome.skipped]
    skipped = sum(outcome.skipped for outcome in outcomes)
    parts = [f"{len(outcomes) - skipped - len(failed)} {done}"]
    parts += [f"{skipped} skipped"] if skipped else []
    parts += [f"{len(failed)} failed ({', '.join(failed)})"] if failed else []
    return printable(f"{counted(len(outcomes), 'project')}: {', '.join(parts)}")


def exit_code(outcomes: Sequence[Outcome[T]]) -> int:
    """The exit code of the first project that failed; SELECTION if there was nothing to do for all of them."""
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None and not outcome.skipped]
    if failures:
        return failures[0].exit_code
    return ExitCode.SELECTION if outcomes and all(outcome.skipped for outcome in outcomes) else ExitCode.OK
