"""Whether variants are what sources and pinned toolchains make: they are built again, without any cache."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py_driver import __version__
from py_driver.bazel.find import find_bazel
from py_driver.bazel.invocation import Cxx, apart, build, verifying
from py_driver.bazel.run import run as run_bazel
from py_driver.bazel.servers import build_turn
from py_driver.building.executed import read_steps
from py_driver.building.selection import archives, choose
from py_driver.building.true_names import true_names
from py_driver.building.variant_dir import BUILD, differences, present, read_metadata
from py_driver.building.workspace import one_at_a_time, workspace_for
from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.fetch.prefetch import fetch_all
from py_driver.matrix.lock_update import check_user_lock
from py_driver.output import printable
from py_driver.plan.metadata import CXX
from py_driver.plan.plan import make_plan
from py_driver.plan.project import MANIFEST, load
from py_driver.publishing.git import sources
from py_driver.publishing.provenance import Sources, read_statement, statement_path
from py_driver.publishing.release import target
from py_driver.system.cache import cache_root, storage_errors
from py_driver.system.environment import bare
from py_driver.system.scratch import scratch, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from py_driver.bazel.find import Bazel
    from py_driver.bazel.invocation import Choices
    from py_driver.building.build import Options
    from py_driver.manifest.model import Manifest
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant

_DIFFOSCOPE = "diffoscope"
_SHOWN = 5
_PATIENCE = 600
_LONGEST = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """What is published, to be compared in the place of what is in `build/`.

    Attributes:
        repo_id: where, instead of what build.toml says.
        branch: on which branch, instead of what build.toml says or `v<version>`.
    """

    repo_id: str = ""
    branch: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """A variant that was built again.

    Attributes:
        variant: its identifier.
        place: of what was there before: `PROJECT/build/VARIANT`, or where the Hub has it.
        differences: what is not the same, a file each; see `variant_dir.differences`.
        hint: of other sources or another driver that it may have been built from, as its published statement says.
        report: what diffoscope says of the differences, if it was asked.
    """

    variant: str
    place: str
    differences: tuple[str, ...]
    hint: str = ""
    report: str = ""


class _Place(NamedTuple):
    """Where variants are.

    Attributes:
        directory: that has them in its `build/`.
        name: what messages call that `build/`; empty for its path.
    """

    directory: Path
    name: str = ""


def verify(  # noqa: PLR0913  (what is verified, how it is built, and what is done with that)
    directory: Path,
    patterns: Sequence[str],
    releases: Releases,
    output: Output,
    options: Options,
    release: Release | None = None,
    *,
    diffoscope: bool = False,
) -> list[Verified]:
    """Build variants anew, with no result of an earlier run of anything, and compare them with what is there.

    Args:
        directory: of the project.
        patterns: globs of identifiers; none means all that are there.
        releases: to build for.
        output: where progress is shown.
        options: how many steps at once, in what memory, with which settings; nothing remote is used.
        release: what is published, if that is compared and not `build/`.
        diffoscope: let that say how variants differ. It looks into them with many programs, so whoever published them
            could find a fault in one of those.

    Raises:
        DriverError: SET_UP if diffoscope is wanted and not on PATH; FILE_MISSING if there is nothing to compare;
            FOREIGN_FILE if there is what is no variant of the project and no patterns are given; see `building.build`
            and `hub.Hub`.
    """
    check_user_lock(releases)
    if diffoscope and shutil.which(_DIFFOSCOPE) is None:
        raise error(Code.SET_UP, f"there is no {_DIFFOSCOPE} on PATH", help="install it, or run without --diffoscope")
    project = load(directory, releases)
    plan = make_plan(project, releases.matrix, strict_archs=options.strict_archs)
    named = choose(plan, patterns, options.words) if patterns or options.words.given else plan.variants
    with _local(directory) if release is None else _published(project.manifest, named, release, output) as place:
        chosen = present(place.directory, plan, patterns, place.name, words=options.words)
        here = _here(directory, plan) if release else (Sources(), "")
        found = {}
        for cxx, those in compilers(place.directory, chosen, options.choices.cxx).items():
            with _made(directory, plan, those, releases, output, replace(options.choices, cxx=cxx)) as made:
                for name, path in made.items():
                    found[name] = _compared(name, path, place, here, diffoscope=diffoscope)
        return [found[variant.name] for variant in chosen]


def compilers(directory: Path, chosen: Sequence[Variant], named: Cxx | None) -> dict[Cxx | None, list[Variant]]:
    """Variants by what is to compile their C++.

    Args:
        directory: that has them in its `build/`.
        chosen: the variants.
        named: what the user says; if None, it is what each was built with.
    """
    found: dict[Cxx | None, list[Variant]] = {}
    for variant in chosen:
        stated = (read_metadata(directory / BUILD / variant.name) or {}).get(CXX)
        found.setdefault(named or (Cxx.GCC if stated == Cxx.GCC else None), []).append(variant)
    return found


@contextmanager
def _made(  # noqa: PLR0913  (what, for which releases, how, and where it is shown)
    directory: Path, plan: Plan, chosen: Sequence[Variant], releases: Releases, output: Output, choices: Choices
) -> Iterator[dict[str, Path]]:
    """The directories of variants, built anew, as long as this lasts."""
    with one_at_a_time(plan, output):
        workspace = workspace_for(directory, plan, releases)
        fetch_all(archives(plan, chosen, releases.lock, gcc=choices.gcc), output)
        with _nothing_kept(find_bazel(workspace.root, output), workspace.root, output) as bazel:
            labels = [workspace.label(variant.name) for variant in chosen]
            title = f"building {plan.name} without any cache"
            with build_turn(output) as mine:
                options = verifying(choices, mine.running, output)
                done = build(bazel, workspace.root, labels, output, title=title, options=options)
            root = done.events.exec_root or workspace.root
            records = read_steps(done.events.groups.get("steps", ()), [variant.name for variant in chosen])
            with ExitStack() as stack:
                places = {record["variant"]: root / record["directory"] for record in records}
                yield {name: stack.enter_context(true_names(place, plan)) for name, place in places.items()}


def _compared(variant: str, made: Path, place: _Place, here: tuple[Sources, str], *, diffoscope: bool) -> Verified:
    there = place.directory / BUILD / variant
    shown = f"{place.name}/{variant}" if place.name else str(there)
    found = differences(made, there)
    if not found:
        return Verified(variant=variant, place=shown, differences=())
    hint = _hint(place.directory / statement_path(variant), here)
    report = _diffoscope(made, there) if diffoscope else ""
    return Verified(variant=variant, place=shown, differences=found, hint=hint, report=report)


def _here(directory: Path, plan: Plan) -> tuple[Sources, str]:
    """What git says of the sources at hand; nothing if it does not want to."""
    try:
        return sources(directory, {MANIFEST, *plan.files})
    except DriverError:
        return Sources(), ""


def _hint(statement: Path, git: tuple[Sources, str]) -> str:
    """How a published statement differs from what is here; empty if there is no statement."""
    if not statement.is_file():
        return ""
    stated, (here, changed) = read_statement(statement.read_bytes()), git
    hints = []
    if stated.sources.commit and stated.sources.commit != here.commit:
        hints.append(f"it was built from commit {stated.sources.commit}, and here is {here.commit or 'no commit'}")
    elif changed:
        hints.append(f"{changed} differs from the commit")
    if stated.sources.dirty:
        hints.append("it was built from sources that were not committed")
    if stated.version and stated.version != __version__:
        hints.append(f"it was built with rules_torch_kernels {stated.version}, and this is {__version__}")
    return "; ".join(hints)


def _diffoscope(made: Path, there: Path) -> str:
    """What diffoscope says of two directories of a variant."""
    command = [_DIFFOSCOPE, "--text=-", f"--max-text-report-size={_LONGEST}", f"--timeout={_PATIENCE}"]
    command += ["--exclude-directory-metadata=yes", "--exclude=*__pycache__*", "--", str(made), str(there)]
    environ = bare({"LC_ALL": "C.UTF-8"})
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=environ)
    return "\n".join(printable(line) for line in done.stdout.rstrip().splitlines())


@contextmanager
def _local(directory: Path) -> Iterator[_Place]:
    """The project itself."""
    yield _Place(directory)


@contextmanager
def _published(manifest: Manifest, named: Sequence[Variant], release: Release, output: Output) -> Iterator[_Place]:
    """What the Hub has of a project, brought here for as long as this lasts."""
    from py_driver.publishing.hub import Hub  # noqa: PLC0415  (half a second, and only this needs it)

    repo_id, branch = target(manifest, release.repo_id, release.branch)
    hub = Hub(repo_id)
    head = hub.heads().get(branch, "")
    if not head:
        message = f"{hub.address} has no branch {branch}"
        raise error(Code.FILE_MISSING, message, help="publish it first, or name another with --branch or --repo-id")
    with tempfile.TemporaryDirectory() as place, output.task(f"downloading {repo_id} of {branch}") as task:
        hub.download(head, [*(f"{BUILD}/{one.name}/*" for one in named), statement_path("*")], Path(place))
        task.done(f"commit {head}")
        yield _Place(Path(place), f"{hub.address}/tree/{head}/{BUILD}")


@contextmanager
def _nothing_kept(bazel: Bazel, root: Path, output: Output) -> Iterator[Bazel]:
    """A Bazel that has built nothing, keeps nothing, and reads no settings of this machine or user."""
    places = cache_root() / "verify"
    with ExitStack() as stack:
        with storage_errors(places):
            places.mkdir(parents=True, exist_ok=True)
            sweep(places)
            place = stack.enter_context(scratch(places))
        own = apart(bazel, place / "output")
        try:
            yield own
        finally:
            title = "removing the new builds"
            run_bazel(own, ["clean", "--expunge"], root, output, title=title, check=False)


def failures(verified: Sequence[Verified]) -> list[Diagnostic]:
    """NOT_REPRODUCED for each variant that is not what was built."""
    found = []
    for one in verified:
        if one.differences:
            shown = "; ".join(one.differences[:_SHOWN])
            more = len(one.differences) - _SHOWN
            message = f"{one.place} does not match its sources: {shown}" + (f"; {more} more" if more > 0 else "")
            advice = "" if one.report else "install diffoscope and add --diffoscope to see the differences"
            found.append(Diagnostic(code=Code.NOT_REPRODUCED, message=message, help=one.hint or advice))
    return found
