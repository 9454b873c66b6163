"""Whether variants match their sources and pinned toolchains: they are rebuilt without any cache."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py_driver import __version__
from py_driver.building.file_names import true_names
from py_driver.building.made import remember
from py_driver.building.selection import check_split, choose, made_from
from py_driver.building.variant_dir import BUILD, differences, files_of, present, read_metadata, remove_bytecode
from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.matrix.lock_update import check_user_lock
from py_driver.output import printable
from py_driver.plan.plan import make_plan
from py_driver.plan.project import MANIFEST, load
from py_driver.plan.slices import slice_names, sliced
from py_driver.publishing.downloaded import downloaded
from py_driver.publishing.git import sources
from py_driver.publishing.provenance import Sources, read_statement, statement_path
from py_driver.publishing.rebuild import Place, Rebuilt, Task, rebuild
from py_driver.publishing.rebuilt_statement import About, Same
from py_driver.publishing.release import target
from py_driver.publishing.slices import present_slices, slice_branch
from py_driver.system.environment import bare
from py_driver.system.files import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from py_driver.actions.executed import VariantActions
    from py_driver.building.build import Options
    from py_driver.manifest.model import Manifest
    from py_driver.matrix.lock import Lock
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.plan import Plan

_DIFFOSCOPE = "diffoscope"
_SHOWN = 5
_PATIENCE = 600
_LONGEST = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """A publication on the Hub that is compared instead of `build/`.

    Attributes:
        repo_id: the repository, instead of the one in build.toml.
        branch: the branch, instead of the one in build.toml or `v<version>`.
    """

    repo_id: str = ""
    branch: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """A variant that was rebuilt.

    Attributes:
        variant: its identifier.
        place: the location of the compared variant: `PROJECT/build/VARIANT`, or its address on the Hub.
        differences: one text for each file that differs; see `variant_dir.differences`.
        hint: how the published statement's sources or driver differ from those here.
        report: diffoscope's report about the differences, if requested.
        same: the facts for a statement, if requested and the variant is identical.
    """

    variant: str
    place: str
    differences: tuple[str, ...]
    hint: str = ""
    report: str = ""
    same: Same | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyOptions:
    """How to verify.

    Attributes:
        patterns: globs of identifiers; empty for all existing variants.
        build: the settings of the build; nothing remote is used.
        release: the publication to compare instead of `build/`.
        diffoscope: whether diffoscope reports how variants differ. It opens their files with many programs, so whoever
            published the variants could exploit a fault in one of those.
        stated: the publication that signed statements name, if statements are wanted. Slices have none.
        slices: whether the slices of the variants are compared, too.
    """

    patterns: Sequence[str]
    build: Options
    release: Release | None = None
    diffoscope: bool = False
    stated: Release | None = None
    slices: bool = False


Result = Rebuilt[Verified]
"""The results of a project, or its error."""


def check_tools(releases: Releases, options: VerifyOptions) -> None:
    """Check the prerequisites that concern all projects.

    Raises:
        DriverError: SET_UP if diffoscope is wanted and not on PATH; what `check_user_lock` raises.
    """
    check_user_lock(releases)
    if options.diffoscope and shutil.which(_DIFFOSCOPE) is None:
        raise error(Code.SET_UP, f"there is no {_DIFFOSCOPE} on PATH", help="install it, or run without --diffoscope")


def make_task(directory: Path, releases: Releases, output: Output, options: VerifyOptions, stack: ExitStack) -> Task:
    """Prepare the verification of a project.

    Args:
        directory: the directory of the project.
        releases: the releases to build for.
        output: where progress is shown.
        options: how to verify.
        stack: removes the downloaded files at its end.

    Raises:
        DriverError: FILE_MISSING if there is nothing to compare; FOREIGN_FILE if an entry is not a variant of the
            project and no patterns are given; see `hub.Hub` and reading a project; if statements are to be signed,
            DIRTY_TREE if the sources are not those of a commit, and what `target` raises; see `check_split`.
    """
    project = load(directory, releases)
    plan = make_plan(project, releases.matrix, strict_archs=options.build.strict_archs)
    patterns, words, release = options.patterns, options.build.words, options.release
    named = choose(plan, patterns, words) if patterns or words.given else plan.variants
    location = Place(directory)
    about = _about(directory, project.manifest, plan, options.stated) if options.stated else None
    repo_id, branch = target(project.manifest, release.repo_id, release.branch) if release else ("", "")
    paths = [*(f"{BUILD}/{variant.name}/*" for variant in named), statement_path("*")]
    if release:
        location = stack.enter_context(downloaded(repo_id, branch, paths, output))
    chosen = present(location.directory, plan, patterns, location.name, words=words)
    here = _here(directory, plan) if release else (Sources(), "")
    if options.slices:
        check_split(chosen, releases.matrix, options.build.choices)
        plan = sliced(plan, chosen)
        if release:
            parts = {}
            for name in slice_names(plan):
                own = slice_branch(branch, name)
                parts[name] = stack.enter_context(downloaded(repo_id, own, paths, output))
            location = location._replace(slices=parts)
        chosen = [*chosen, *present_slices(plan, location.find, location.shown if release else None)]
    return Task(directory, plan, chosen, location, here, about=about)


def verify(tasks: Iterable[Task], releases: Releases, output: Output, options: VerifyOptions) -> dict[Path, Result]:
    """Rebuild variants without any earlier result, and compare them with the existing ones.

    One Bazel builds all projects of a workspace: it sets up the toolchains once.

    Args:
        tasks: the projects.
        releases: the releases to build for.
        output: where progress is shown.
        options: how to verify.

    Returns:
        The results of each project, by its directory; for errors see `building.build`.

    Raises:
        DriverError: an error that concerns all of them; INTERRUPTED.
    """

    def compare(task: Task, counts: VariantActions, fresh: Path) -> Verified:
        return _compared(task, counts.variant, fresh, releases.lock, options)

    return rebuild(tasks, releases, output, options.build.choices, compare)


def _compared(task: Task, variant: str, fresh: Path, lock: Lock, options: VerifyOptions) -> Verified:
    """Compare a rebuilt variant with the existing one."""
    [planned] = [planned for planned in task.chosen if planned.name == variant]
    existing, shown = task.place.find(planned), task.place.shown(planned)
    with true_names(fresh, task.plan) as named:
        if not task.place.name:
            remove_bytecode(existing)  # published variants must have none
        found = differences(named, existing)
        if not found:
            metadata = read_metadata(named) or {}
            archives = made_from(task.plan, planned, metadata, lock)
            remember(named, archives)
            digests = {f"{BUILD}/{variant}/{name}": sha256(path.read_bytes()) for name, path in files_of(named).items()}
            stated = task.about if not planned.slice else None
            same = Same(stated, variant, str(metadata["id"]), digests, archives) if stated else None
            return Verified(variant=variant, place=shown, differences=(), same=same)
        hint = _hint(existing.parents[1] / statement_path(planned.identifier), task.here)
        report = diffoscope(named, existing) if options.diffoscope else ""
    return Verified(variant=variant, place=shown, differences=found, hint=hint, report=report)


def _about(directory: Path, manifest: Manifest, plan: Plan, release: Release) -> About:
    """The project as a statement names it: its repository, and a commit with all its sources.

    Raises:
        DriverError: DIRTY_TREE; see `target`.
    """
    repository, _ = target(manifest, release.repo_id, release.branch)
    commit, changed = sources(directory, {MANIFEST, *plan.files})
    if changed or not commit.commit:
        reason = f"has changes that are not committed: {changed}" if changed else "is in no git repository"
        advice = "a statement names the commit that was built: commit the sources"
        raise error(Code.DIRTY_TREE, f"{directory} {reason}", help=advice)
    return About(repository, manifest.version, commit)


def _here(directory: Path, plan: Plan) -> tuple[Sources, str]:
    """The state in git of the sources here; empty if git cannot report it."""
    try:
        return sources(directory, {MANIFEST, *plan.files})
    except DriverError:
        return Sources(), ""


def _hint(statement: Path, git: tuple[Sources, str]) -> str:
    """How a published statement differs from the sources and the driver here; empty if there is no statement."""
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


def diffoscope(fresh: Path, there: Path) -> str:
    """The report of diffoscope on two directories of a variant.

    Args:
        fresh: the rebuilt variant.
        there: the variant that it is compared with.
    """
    command = [_DIFFOSCOPE, "--text=-", f"--max-text-report-size={_LONGEST}", f"--timeout={_PATIENCE}"]
    command += ["--exclude-directory-metadata=yes", "--", str(fresh), str(there)]
    environ = bare({"LC_ALL": "C.UTF-8"})
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=environ)
    return "\n".join(printable(line) for line in done.stdout.rstrip().splitlines())


def failures(verified: Sequence[Verified]) -> list[Diagnostic]:
    """NOT_REPRODUCED for each variant that differs from its rebuild."""
    found = []
    for result in verified:
        if result.differences:
            shown = "; ".join(result.differences[:_SHOWN])
            more = len(result.differences) - _SHOWN
            message = f"{result.place} does not match its sources: {shown}" + (f"; {more} more" if more > 0 else "")
            advice = "" if result.report else "install diffoscope and add --diffoscope to see the differences"
            found.append(Diagnostic(code=Code.NOT_REPRODUCED, message=message, help=result.hint or advice))
    return found
