"""`driver publish`: the built variants of a project, as one commit on the Hub, if they are what they claim to be."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from py_driver import __version__
from py_driver.building import archives
from py_driver.collect import BUILD
from py_driver.compliance import build_program, check, expectations
from py_driver.errors import Code, DriverError, error
from py_driver.hub import Hub
from py_driver.plan import make_plan
from py_driver.project import load
from py_driver.provenance import Sources, documents
from py_driver.release import Changes, File, changes, read_variants
from py_driver.templates import render
from py_driver.variants.capabilities import order
from py_driver.variants.matrix import read_matrix
from py_driver.variants.names import parse
from py_driver.verifying import present

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.manifest.model import Manifest
    from py_driver.output import Output
    from py_driver.release import Built

CARD = "README.md"
_MAIN = "main"
_LIBRARY = ".so"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """How to publish.

    Attributes:
        repo_id: where, instead of what build.toml says.
        branch: to which branch, instead of what build.toml says or `v<version>`.
        private: whether a repository that is made is private.
        create_pr: whether to open a pull request in the place of a commit.
        dry_run: whether to say only what would be done.
        allow_dirty: whether files may differ from what git has.
    """

    repo_id: str = ""
    branch: str = ""
    private: bool = False
    create_pr: bool = False
    dry_run: bool = False
    allow_dirty: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """What was done to a branch, or would be.

    Attributes:
        branch: which.
        changes: files that were added and deleted.
        url: of the commit or the pull request; empty if there is none.
    """

    branch: str
    changes: Changes
    url: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """What was published, or would be.

    Attributes:
        repo_id: where.
        address: where people find it.
        variants: identifiers.
        branches: that of the variants, then that of the card.
    """

    repo_id: str
    address: str
    variants: tuple[str, ...]
    branches: tuple[Published, ...]


def publish(directory: Path, patterns: Sequence[str], output: Output, wish: Wish) -> Publication:
    """Publish variants that are in `build/`.

    Args:
        directory: of the project.
        patterns: globs of identifiers; none means all that are in `build/`.
        output: where progress is shown.
        wish: how.

    Raises:
        DriverError: MISSING_KEY if nobody says where to; DIRTY_TREE; CHANGED_BUILD; NOT_COMPLIANT; HUB_REFUSED;
            NO_NETWORK; what `verifying.present` and reading the project raise.
    """
    matrix = read_matrix()
    project = load(directory, matrix)
    manifest = project.manifest
    repo_id = wish.repo_id or manifest.hub.repo_id
    if not repo_id:
        advice = 'name it with --repo-id, or write [general.hub] repo-id = "owner/name"'
        raise error(Code.MISSING_KEY, "nobody says to which repository to publish", help=advice)
    sources = _sources(directory, refuse_dirty=not wish.allow_dirty)
    plan = make_plan(project, matrix)
    chosen = present(directory, plan, patterns)
    names = [variant.name for variant in chosen]
    built = read_variants(directory, names)
    _check(directory, built, output)
    about = [
        document
        for variant, one in zip(chosen, built, strict=True)
        for document in documents(manifest, one, archives(plan, [variant]), sources)
    ]
    branch = wish.branch or manifest.hub.branch or f"v{manifest.version}"
    hub = Hub(repo_id)
    wanted = (*(file for one in built for file in one.files), *about)
    message = f"{manifest.name.value} {manifest.version}: {len(built)} variant{'s' * (len(built) != 1)}"
    with output.task(f"publishing to {repo_id}") as task:
        if not wish.dry_run:
            hub.create((branch,), private=wish.private)
        places = tuple(f"{BUILD}/{name}" for name in names)
        first = _bring(hub, _Goal(branch, wanted, places, message), wish)
        card = File(CARD, _card(manifest, repo_id, built).encode())
        title = f"Card of {manifest.name.value} {manifest.version}"
        second = _bring(hub, _Goal(_MAIN, (card,), (), title), wish)
        count = len(first.changes.added) + len(first.changes.deleted)
        task.done(f"{count} files changed, {first.changes.same} the same")
    return Publication(repo_id=repo_id, address=hub.address, variants=tuple(names), branches=(first, second))


class _Goal(NamedTuple):
    """What a branch is to have.

    Attributes:
        branch: which.
        files: all that it is to have below `places`.
        places: directories of which it is to have nothing else.
        message: of the commit.
    """

    branch: str
    files: tuple[File, ...]
    places: tuple[str, ...]
    message: str


def _bring(hub: Hub, goal: _Goal, wish: Wish) -> Published:
    """Make a branch have some files, in one commit; in none if it has them."""
    branch = goal.branch
    parent = hub.head(branch)
    todo = changes(goal.files, hub.files(parent), goal.places)
    if wish.dry_run or not (todo.added or todo.deleted):
        return Published(branch=branch, changes=todo)
    try:
        url = hub.commit(branch, parent, todo, goal.message, create_pr=wish.create_pr)
    except DriverError:
        # The answer may be lost and not the commit: the branch says so.
        head = hub.head(branch)
        if wish.create_pr or head == parent or _lacks(hub, head, goal):
            raise
        return Published(branch=branch, changes=todo, url=f"{hub.address}/commit/{head}")
    if not wish.create_pr and (path := _lacks(hub, hub.head(branch), goal)):
        message = f"{hub.address} does not have what was sent: {path}"
        raise error(
            Code.HUB_REFUSED, message, help="run it again; if it stays so, somebody else publishes to the branch"
        )
    return Published(branch=branch, changes=todo, url=url)


def _lacks(hub: Hub, head: str, goal: _Goal) -> str:
    """A file that a commit has not as it should; nothing if there is none."""
    left = changes(goal.files, hub.files(head), goal.places)
    return (*(file.path for file in left.added), *left.deleted, "")[0]


def _sources(directory: Path, *, refuse_dirty: bool) -> Sources:
    """What git says of a project; nothing outside of a repository, or without git.

    Args:
        directory: of the project.
        refuse_dirty: whether files that git does not have so are an error.

    Raises:
        DriverError: DIRTY_TREE.
    """
    changed = _git(directory, "status", "--porcelain", "--", ".", f":(exclude){BUILD}")
    if changed and refuse_dirty:
        message = f"{directory} has changes that git does not have: {changed.splitlines()[0][3:]}"
        raise error(Code.DIRTY_TREE, message, help="commit them, or publish with --allow-dirty")
    return Sources(commit=_git(directory, "rev-parse", "--verify", "-q", "HEAD").strip(), dirty=bool(changed))


def _git(directory: Path, *arguments: str) -> str:
    """What git answers; nothing if it fails or is not there."""
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        return ""
    return "" if done.returncode else done.stdout


def _check(directory: Path, built: Sequence[Built], output: Output) -> None:
    """Check the extensions once more: what lies in build/ is what is published."""
    places = [directory / file.path for one in built for file in one.files if file.path.endswith(_LIBRARY)]
    if not places:
        return
    program = build_program(output)
    checked = [check(program, path, expectations(path)) for path in places]
    if wrong := [found for one in checked if (found := one.diagnostic())]:
        raise DriverError(wrong)


def _card(manifest: Manifest, repo_id: str, built: Sequence[Built]) -> str:
    """The README.md of the repository."""
    rows = []
    for one in built:
        cell = parse(one.name)
        archs = sorted(one.metadata["backend"].get("archs", []), key=order)
        rows.append({"name": one.name, "cell": cell, "archs": archs})
    # Every value is one that build.toml's checks let pass.
    return render("card.md.j2", manifest=manifest, repo_id=repo_id, rows=rows, version=__version__)
