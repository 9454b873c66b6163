"""`driver publish`: the built variants of a project, as one commit on the Hub, after checking them."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.actions.workspace import held
from py_driver.building.selection import made_from
from py_driver.building.variant_dir import BUILD, present, read_metadata
from py_driver.errors import Code, DriverError, error
from py_driver.matrix.select import ANY
from py_driver.output import counted
from py_driver.plan.metadata import METADATA
from py_driver.plan.plan import make_plan
from py_driver.plan.project import MANIFEST, load
from py_driver.plan.slices import sliced
from py_driver.publishing.card import CARD, MADE, card_facts, make_card
from py_driver.publishing.card_files import benchmarks, texts
from py_driver.publishing.hub import Hub
from py_driver.publishing.provenance import documents
from py_driver.publishing.release import Changes, changes, make_file, read_to_ship, target, unique_ids
from py_driver.publishing.release_record import recorded_changes
from py_driver.publishing.shipment import check_libraries, committed
from py_driver.publishing.shipped_statements import shipped_statements
from py_driver.publishing.slices import INDEX, make_index, read_slices, slice_branch, slice_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from py_driver.manifest.model import Manifest
    from py_driver.matrix.lock import Lock
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.select import Words
    from py_driver.output import Output
    from py_driver.plan.plan import Plan, Variant
    from py_driver.publishing.provenance import Sources
    from py_driver.publishing.release import BuiltVariant, File

_MAIN = "main"
_VARIANT = rf"{BUILD}/([a-z0-9_-]+)/{re.escape(METADATA)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishOptions:
    """How to publish.

    Attributes:
        repo_id: the repository, instead of the one in build.toml.
        branch: the branch, instead of the one in build.toml or `v<version>`.
        private: whether a new repository is private.
        create_pr: whether to open a pull request instead of a commit.
        dry_run: whether to report only what would be done.
        allow_dirty: whether files may differ from the commit.
        strict: whether probable mistakes that upstream's builder accepts are errors.
        strict_archs: whether a variant that lacks an architecture of its section is an error.
        words: torch releases and backends of the variants.
        slices: whether their slices are published too, each in a branch of its capability.
    """

    repo_id: str = ""
    branch: str = ""
    private: bool = False
    create_pr: bool = False
    dry_run: bool = False
    allow_dirty: bool = False
    strict: bool = False
    strict_archs: bool = False
    words: Words = ANY
    slices: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """The changes of a branch, done or planned.

    Attributes:
        branch: its name.
        changes: the added and deleted files.
        url: the address of the commit or the pull request; empty without either.
    """

    branch: str
    changes: Changes
    url: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """A publication, done or planned.

    Attributes:
        repo_id: the repository.
        address: the address of its page.
        variants: identifiers of the published variants.
        branches: the branches of slices, the branch of the variants, then the card's if it is published.
        notes: what was not done although the user may expect it.
    """

    repo_id: str
    address: str
    variants: tuple[str, ...]
    branches: tuple[Published, ...]
    notes: tuple[str, ...]


def publish(  # noqa: PLR0913  (what, for which releases, how, where it is shown, and what went before)
    directory: Path,
    patterns: Sequence[str],
    releases: Releases,
    output: Output,
    options: PublishOptions,
    taken: dict[tuple[str, str], Path] | None = None,
) -> Publication:
    """Publish the variants in `build/`.

    Args:
        directory: the directory of the project.
        patterns: globs of identifiers; empty for all in `build/`.
        releases: the releases to build for.
        output: where progress is shown.
        options: how to publish.
        taken: the projects that this call published before, by repository and branch; this project is added.

    Raises:
        DriverError: MISSING_KEY if no repository is known; FOREIGN_FILE if a project in `taken` has the branch; USAGE;
            DIRTY_TREE; CHANGED_BUILD; NOT_COMPLIANT; HUB_REFUSED; NO_NETWORK; PERMISSION; what `variant_dir.present`
            and reading the project raise; if `options.strict` the codes of its notes.
    """
    _check_options(options)
    project = load(directory, releases)
    if options.strict and project.doubts:
        raise DriverError(project.doubts)
    manifest = project.manifest
    repo_id, branch = target(manifest, options.repo_id, options.branch)
    plan = make_plan(project, releases.matrix, strict_archs=options.strict_archs)
    scripts, notes = benchmarks(directory, "*.py")
    reports, _ = benchmarks(directory, "*.json")
    published = {MANIFEST, *plan.files, *(file.path for file in (*scripts, *reports))}
    commit = committed(directory, published, allow_dirty=options.allow_dirty)
    with held(directory, plan, output):
        chosen = present(directory, plan, patterns, words=options.words)
        built = read_to_ship(directory, plan, chosen, releases.lock)
        parts = read_slices(directory, sliced(plan, chosen), releases.lock) if options.slices else []
        pairs = [*zip(chosen, built, strict=True)]
        check_libraries([*pairs, *(pair for part in parts for pair in part.pairs)], releases, output)
        if taken is not None and taken.setdefault((repo_id, branch), directory) != directory:
            message = f"{taken[repo_id, branch]} and {directory} would both be published to {branch} of {repo_id}"
            raise error(Code.FOREIGN_FILE, message, help="give each project its own `repo-id` or `version`")

        release = _Release(manifest, plan, releases.lock, commit)
        hub = Hub(repo_id)
        own = [release(slice_branch(branch, part.name), part.pairs, f"slices for {part.name}") for part in parts]
        with output.task(f"publishing to {repo_id}") as task:
            if not (options.dry_run or options.create_pr):
                for name in (*(part.branch for part in own), branch):
                    hub.create(name, private=options.private)
            heads = hub.heads()
            index = _known_index(hub, heads, branch)
            index = make_index(index, branch, built, parts) if parts else index
            stated, unfit = shipped_statements(directory, built)
            notes += unfit
            described = _described(hub, heads, branch, built)
            notes += _from_other_sources(directory, plan, described, branch)
            more = [*scripts, *stated, *([make_file(INDEX, index)] if parts and index else [])]
            # The index is last, so that all its entries exist.
            own.append(release(branch, pairs, counted(len(built), "variant"), more))
            if refused := _no_card(hub, heads, branch, f"v{manifest.version}"):
                goals, notes = own, [*notes, refused]
            else:
                record = recorded_changes(directory, described)
                rows = slice_rows(index, built)
                card = make_card(card_facts(manifest, repo_id, described, texts(project), record, rows))
                title = f"Card of {manifest.name.value} {manifest.version}"
                goals = [*own, _Goal(_MAIN, (make_file(CARD, card),), (), title)]
            done = tuple(_bring_all(hub, heads, goals, options))
            sent = [published.changes for published in done[: len(own)]]
            count = sum(len(changes.added) + len(changes.deleted) for changes in sent)
            task.done(f"{counted(count, 'file')} changed, {sum(changes.same for changes in sent)} the same")
    names = tuple(shipped.name for shipped in built)
    return Publication(repo_id=repo_id, address=hub.address, variants=names, branches=done, notes=tuple(notes))


def _check_options(options: PublishOptions) -> None:
    """Refuse options that contradict each other.

    Raises:
        DriverError: USAGE.
    """
    if options.slices and options.create_pr:
        message = "--slice: a pull request is for one branch, and slices go to several"
        raise error(Code.USAGE, message, help="publish without --create-pr")


def _known_index(hub: Hub, heads: Mapping[str, str], branch: str) -> bytes | None:
    """The index of slices on a branch; None if it has none."""
    head = heads.get(branch, "")
    if not any(file.path == INDEX for file in hub.files(head)):
        return None
    with tempfile.TemporaryDirectory() as folder:
        hub.download(head, [INDEX], Path(folder))
        return Path(folder, INDEX).read_bytes()


def _no_card(hub: Hub, heads: Mapping[str, str], branch: str, own: str) -> str:
    """Why this publication does not write the card; empty if it does."""
    if branch != own:
        return f"the card stays as it is: it is about {own}, and this is {branch}"
    newest = max((int(name[1:]) for name in heads if re.fullmatch(r"v[0-9]{1,9}", name)), default=0)
    if newest > int(own[1:]):
        return f"the card stays as it is: it is about v{newest}, which is newer than {own}"
    if main := heads.get(_MAIN):
        with tempfile.TemporaryDirectory() as folder:
            hub.download(main, [CARD], Path(folder))
            card = Path(folder, CARD)
            if card.is_file() and MADE not in card.read_text(encoding="utf-8", errors="replace"):
                return f"{CARD} of {_MAIN} stays as it is: the driver did not write it; delete it to get a new one"
    return ""


class _Goal(NamedTuple):
    """The wanted content of a branch.

    Attributes:
        branch: its name.
        files: all files that it needs below `places`.
        places: directories that must contain nothing else.
        message: the message of the commit.
    """

    branch: str
    files: tuple[File, ...]
    places: tuple[str, ...]
    message: str


class _Release(NamedTuple):
    """The facts that the goals of a release share.

    Attributes:
        manifest: the manifest of the project.
        plan: the plan of the project.
        lock: the pinned archives.
        sources: the state of the project's sources in git.
    """

    manifest: Manifest
    plan: Plan
    lock: Lock
    sources: Sources

    def __call__(
        self, branch: str, pairs: Sequence[tuple[Variant, BuiltVariant]], title: str, more: Sequence[File] = ()
    ) -> _Goal:
        """The goal of a branch: variants with their statements and SBOMs.

        Args:
            branch: its name.
            pairs: the variants, each as planned and as built.
            title: the commit's message about them.
            more: further files.
        """
        wanted = [file for _, shipped in pairs for file in shipped.files]
        for variant, shipped in pairs:
            archives = made_from(self.plan, variant, shipped.metadata, self.lock)
            wanted += documents(self.manifest, shipped, archives, self.sources)
        message = f"{self.manifest.name.value} {self.manifest.version}: {title}"
        return _Goal(branch, (*wanted, *more), tuple(f"{BUILD}/{shipped.name}" for _, shipped in pairs), message)


def _bring_all(
    hub: Hub, heads: Mapping[str, str], goals: Iterable[_Goal], options: PublishOptions
) -> Iterator[Published]:
    """Update branches one after the other; an error names the branches that were updated before it."""
    changed: list[str] = []
    for goal in goals:
        try:
            published = _bring(hub, heads.get(goal.branch, ""), goal, options)
        except DriverError as failure:
            first, *others = failure.diagnostics
            if not changed:
                raise
            message = f"{first.message}; {', '.join(changed)} was published before, {goal.branch} was not"
            raise DriverError([first._replace(message=message), *others]) from None
        changed += [goal.branch] if published.url and not (options.dry_run or options.create_pr) else []
        yield published


def _bring(hub: Hub, parent: str, goal: _Goal, options: PublishOptions) -> Published:
    """Update a branch in one commit; no commit if it is up to date, or if a pull request has the changes."""
    branch = goal.branch
    todo = changes(goal.files, hub.files(parent), goal.places)
    if not (todo.added or todo.deleted):
        return Published(branch=branch, changes=todo)
    if options.create_pr and parent:
        for url, commit in hub.pull_requests():
            if not _lacks(hub, commit, goal):
                return Published(branch=branch, changes=Changes((), (), len(goal.files)), url=url)
    if options.dry_run:
        return Published(branch=branch, changes=todo)
    if not parent:
        message = f"{hub.address} has no branch {branch} to make a pull request for"
        raise error(
            Code.HUB_REFUSED, message, help="somebody with write access must create it, by publishing once or by hand"
        )
    try:
        url = hub.commit(branch, parent, todo, goal.message, create_pr=options.create_pr)
    except DriverError:
        # The commit may exist although its answer was lost: ask for the branch.
        head = hub.heads().get(branch, "")
        if options.create_pr or head == parent or _lacks(hub, head, goal):
            raise
        return Published(branch=branch, changes=todo, url=f"{hub.address}/commit/{head}")
    if not options.create_pr and (path := _lacks(hub, hub.heads().get(branch, ""), goal)):
        message = f"{hub.address} lacks a file that was sent: {path}"
        raise error(
            Code.HUB_REFUSED, message, help="run it again; if that does not help, somebody else publishes to the branch"
        )
    return Published(branch=branch, changes=todo, url=url)


def _lacks(hub: Hub, head: str, goal: _Goal) -> str:
    """The path of a file that differs from the goal in a commit; empty if all are the same."""
    left = changes(goal.files, hub.files(head), goal.places)
    return (*(file.path for file in left.added), *left.deleted, "")[0]


def _described(
    hub: Hub, heads: Mapping[str, str], branch: str, built: Sequence[BuiltVariant]
) -> dict[str, Mapping[str, Any]]:
    """The metadata of all variants that a branch has or will have, by identifier."""
    metadata = {variant.name: variant.metadata for variant in built}
    head = heads.get(branch, "")
    found = (re.fullmatch(_VARIANT, file.path) for file in hub.files(head))
    others = {match[1] for match in found if match} - set(metadata)
    if not others:
        return metadata
    with tempfile.TemporaryDirectory() as folder:
        hub.download(head, [f"{BUILD}/{name}/{METADATA}" for name in sorted(others)], Path(folder))
        return {name: read_metadata(Path(folder, BUILD, name)) or {} for name in others} | metadata


def _backend(metadata: Mapping[str, Any]) -> str:
    """The backend in a metadata.json, which anybody may have written; empty without one."""
    backend = metadata.get("backend")
    return str(backend.get("type", "")) if isinstance(backend, dict) else ""


def _from_other_sources(
    directory: Path, plan: Plan, described: Mapping[str, Mapping[str, Any]], branch: str
) -> list[str]:
    """A note about variants of a branch for the project's backends that are not of the present sources.

    Args:
        directory: the directory of the project.
        plan: the plan of the project.
        described: the metadata of all variants that the branch will have, by identifier.
        branch: the name of the branch.

    Returns:
        The note; empty if there is no such variant.
    """
    expected = unique_ids(directory, plan)
    ids = {variant.identifier: expected[variant.identity] for variant in plan.variants}
    families = {variant.configuration.family for variant in plan.variants}
    names = [
        name
        for name, metadata in sorted(described.items())
        if metadata.get("id") != ids.get(name) and (name in ids or _backend(metadata) in families)
    ]
    if not names:
        return []
    message = f"{branch} keeps {counted(len(names), 'variant')} of other sources: {', '.join(names)}"
    return [f"{message}; build and publish each again, or delete it there"]
