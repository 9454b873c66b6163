"""`driver release-check`: checks the next release of a kernel against the last one, in one table."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.building.variant_dir import BUILD
from py_driver.cli import add_command, aside, run_command_line
from py_driver.cli.arguments import add_directory, add_repository, releases_of
from py_driver.cli.run import check_project
from py_driver.errors import Code, DriverError, ExitCode, error
from py_driver.output import counted
from py_driver.plan.metadata import METADATA
from py_driver.publishing.card_files import BENCHMARKS, TESTS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from py_driver.cli import Subparsers
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output

_OF_LAST: Final = ("tests of the last release", "benchmarks")
_TEST_FILE: Final = re.compile(r"test_.*\.py|.*_test\.py")
_VERIFIES: Final = re.compile(r"^\s*(?:from|import)\s+(?:\w+\.)*verify\b", re.MULTILINE)
"""The import of `verify.py`, which `driver init` writes; its tolerances follow from the types."""


class Step(NamedTuple):
    """The outcome of a step.

    Attributes:
        name: the subject of the step.
        verdict: the outcome for people.
        code: the exit code for it.
        seconds: the duration.
    """

    name: str
    verdict: str
    code: int
    seconds: float


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "release-check",
        "relu --repo-id me/relu",
        "relu --since v1.0 --torch 2.13 --backend cpu",
        more="Compares the variants in build/ as `driver diff --breaking` does, and runs the tests, the numerics "
        "(tests that import verify.py), the tests of the last release, and the benchmarks beside it. Exit code 1: "
        "something is broken, wrong or slower.",
    )
    add_directory(parser)
    compare = parser.group("compare")
    earlier = compare.add_mutually_exclusive_group()
    earlier.add_argument(
        "--since", metavar="REV", help="use this git commit as the last release (default: the release on the Hub)"
    )
    add_repository(compare, "the last release")
    run_group = parser.group("run")
    run_group.add_argument("--torch", metavar="M.N", help="run with this torch release, as in `driver test`")
    run_group.add_argument("--backend", metavar="NAME", help="run with this backend, as in `driver test`")
    parser.group("report").add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Check; returns the exit code.

    Raises:
        DriverError: USAGE; see `of_commit` and `of_hub`. Failures of steps are in the table.
    """
    from py_driver.publishing.earlier import commit_of, of_commit, of_hub

    directory: Path = args.directory
    check_project(directory)
    if args.since is not None and (args.repo_id or args.branch):
        raise error(Code.USAGE, "--repo-id and --branch name a release on the Hub", help="leave out --since")
    releases = releases_of(args)
    chosen = [f"--torch={args.torch}"] if args.torch else []
    chosen += [f"--backend={args.backend}"] if args.backend else []
    checks = _Checks(output)
    fault: DriverError | None = None
    with ExitStack() as stack:
        if args.since is not None:
            there = stack.enter_context(of_commit(directory, args.since, releases, output))
            commit, old = args.since, there
        else:
            hub = of_hub(directory, releases, output, repo_id=args.repo_id, branch=args.branch)
            there = stack.enter_context(hub)
            commit, old = commit_of(there), there / BUILD
        checks.step("what callers use", lambda: _compared(old, directory, args.since or "", releases, output))
        _own_tests(directory, chosen, checks)
        try:
            source = there if args.since is not None else _source(directory, commit, stack)
        except DriverError as failure:
            fault, source = failure, None
            checks.skip(f"failed: {failure.diagnostics[0].code.number}", failure.exit_code)
        if source:
            checks.step(_OF_LAST[0], lambda: _old_tests(source / TESTS, directory, chosen, checks.ran))
            checks.step(_OF_LAST[1], lambda: _timed(directory, source, commit, chosen, releases, output))
        elif not fault:
            checks.skip("skipped: the Hub names no commit for the release, or one with changes", ExitCode.OK)
    steps = checks.steps
    if args.json:
        output.json({"last-release": commit, "steps": [step._asdict() for step in steps]})
    else:
        output.table(("step", "verdict", "seconds"), [[s.name, s.verdict, f"{s.seconds:.1f}"] for s in steps])
    if fault:
        output.fail(fault)
    return next((step.code for step in steps if step.code), ExitCode.OK)


def _own_tests(directory: Path, chosen: Sequence[str], checks: _Checks) -> None:
    """Run the project's tests: those that import verify.py are the numerics."""
    tests = directory / TESTS
    if not tests.is_dir():
        checks.steps.append(Step("tests", f"there is no {tests}", ExitCode.LOAD, 0))
        return
    files = [path for path in sorted(tests.rglob("*.py")) if _TEST_FILE.fullmatch(path.name)]
    numerics = [path for path in files if _VERIFIES.search(path.read_text(encoding="utf-8", errors="replace"))]
    others = [path for path in files if path not in numerics]
    for name, group in (("tests", others), ("numerics", numerics)):
        words = ["test", str(directory), *chosen]
        if group or not files:
            named = ["--", *map(str, group)] if numerics else []
            checks.step(name, lambda words=words, named=named: checks.ran(*words, *named))  # type: ignore[misc]
        else:
            why = "no test imports verify.py" if group is numerics else "all tests are numerics"
            checks.steps.append(Step(name, f"skipped: {why}", ExitCode.OK, 0))


class _Checks:
    """The steps so far.

    Attributes:
        steps: the finished steps.
    """

    def __init__(self, output: Output) -> None:
        self.steps: list[Step] = []
        self._output = output

    def step(self, name: str, look: Callable[[], tuple[str, int]]) -> None:
        """Run a step; an error fails it."""
        start = time.monotonic()
        try:
            with aside():
                verdict, code = look()
        except DriverError as failure:
            self._output.fail(failure)
            verdict, code = f"failed: {failure.diagnostics[0].code.number}", failure.exit_code
        self.steps.append(Step(name, verdict, code, time.monotonic() - start))

    def skip(self, why: str, code: int) -> None:
        """Skip the steps that need the sources of the last release."""
        self.steps += [Step(name, why, code, 0) for name in _OF_LAST]

    def ran(self, *words: str) -> tuple[str, int]:
        """Run a command; returns its outcome."""
        code = run_command_line(words, self._output)
        return ("passed", code) if code == ExitCode.OK else (f"failed: exit code {code}", ExitCode.DIFFERENCE)


def _source(directory: Path, commit: str, stack: ExitStack) -> Path | None:
    """The sources of the last release, valid until the stack is closed; None if no commit is known.

    Raises:
        DriverError: see `checked_out`.
    """
    from py_driver.publishing.git import checked_out

    return stack.enter_context(checked_out(directory, commit)) if commit else None


def _compared(old: Path, new: Path, since: str, releases: Releases, output: Output) -> tuple[str, int]:
    """Check whether callers break, and record the changes for the card."""
    from py_driver.cli.diff import show
    from py_driver.inspecting.recorded_symbols import Recorded
    from py_driver.inspecting.release_changes import release_changes
    from py_driver.inspecting.release_facts import release_facts
    from py_driver.publishing.release_record import record_changes

    recorded = Recorded(releases)
    before, after = release_facts(old, recorded), release_facts(new, recorded)
    ids = {
        path.parent.name: str(json.loads(path.read_bytes()).get("id")) for path in (new / BUILD).glob(f"*/{METADATA}")
    }
    record_changes(new, since or f"version {before.version}", ids, release_changes(before, after))
    code = show(before, after, output, breaking=True)
    return ("something breaks callers, without a new major version", code) if code else ("no break", code)


def _old_tests(
    tests: Path, directory: Path, chosen: Sequence[str], ran: Callable[..., tuple[str, int]]
) -> tuple[str, int]:
    """Run the tests of the last release with the new build."""
    if not tests.is_dir():
        return "skipped: it has none", ExitCode.OK
    pytest = ["python", "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={tests.parent}", "-c", os.devnull]
    return ran("run", str(directory), *chosen, "--", *pytest, str(tests))


def _timed(  # noqa: PLR0913  (the releases, how, and where it is shown)
    directory: Path, source: Path, commit: str, chosen: Sequence[str], releases: Releases, output: Output
) -> tuple[str, int]:
    """Whether a workload is slower than in the last release, twice in a row: a busy machine has slow moments."""
    from py_driver.publishing.timings import SLOWER, verdict

    if not (directory / BENCHMARKS).is_dir():
        return "skipped: it has none", ExitCode.OK
    if _ids(directory, releases) == _ids(source, releases):
        return "skipped: the same sources make the same build", ExitCode.OK
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "times.json"
        words = ["bench", str(directory), *chosen, "--against", commit, "--output", str(result)]
        slower: set[str] | None = None
        for _ in range(2):
            if run_command_line(words, output):
                return "a result is wrong", ExitCode.DIFFERENCE
            workloads = [found for found in json.loads(result.read_text())["results"] if "base" in found]
            again = {found["workload"] for found in workloads if verdict(found["times"], found["base"])[1] == SLOWER}
            slower = again if slower is None else slower & again
            if not slower:
                count = counted(len(workloads), "workload")
                return (f"{count}, none slower" if workloads else "nothing to compare"), ExitCode.OK
    return f"slower: {', '.join(sorted(slower or ()))}", ExitCode.DIFFERENCE


def _ids(directory: Path, releases: Releases) -> set[str]:
    """The unique ids of a project's builds."""
    from py_driver.plan.plan import make_plan
    from py_driver.plan.project import load
    from py_driver.publishing.release import unique_ids

    return {*unique_ids(directory, make_plan(load(directory, releases), releases.matrix)).values()}
