"""`driver publish`: uploads built variants to the Hugging Face Hub, in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py_driver.cli import add_command
from py_driver.cli.arguments import add_variants, releases_of, words_of
from py_driver.cli.artifact import run_oci
from py_driver.cli.projects import exit_code, for_each, projects_of, summary
from py_driver.errors import Code, ExitCode, error
from py_driver.output import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from py_driver.cli import Subparsers
    from py_driver.cli.projects import Outcome
    from py_driver.output import Output
    from py_driver.publishing.publish import Publication, Published

_HEADER = ("project", "repository", "branch", "added", "deleted", "same", "outcome")
_NUMBERS = (3, 4, 5)
"""The columns of the table with numbers."""


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "publish",
        "relu --dry-run",
        "relu --repo-id me/relu --create-pr",
        more="It uses the token of `hf auth login`, or HF_TOKEN.",
    )
    add_variants(parser, default="all variants in build/", several=True)
    upload = parser.group("upload")
    upload.add_argument(
        "--repo-id", metavar="OWNER/NAME", default="", help="repository on the Hub (default: from build.toml)"
    )
    upload.add_argument(
        "--branch",
        metavar="NAME",
        default="",
        help="branch of the repository (default: from build.toml, or v<version>)",
    )
    upload.add_argument(
        "--private", action="store_true", help="create a missing repository as private (default: public)"
    )
    upload.add_argument(
        "--oci",
        metavar="HOST/NAME:TAG",
        default="",
        help="publish to an OCI registry instead of the Hub (default tag: v<version>)",
    )
    upload.add_argument("--create-pr", action="store_true", help="open a pull request instead of committing")
    upload.add_argument(
        "--slice",
        action="store_true",
        help="also publish the slices in build-slices/, each GPU capability to its own branch, such as v1-sm90",
    )
    upload.add_argument("--dry-run", action="store_true", help="print the changes; upload nothing")
    upload.add_argument("--allow-dirty", action="store_true", help="publish even if the sources differ from the commit")
    upload.add_argument("--strict", action="store_true", help="refuse projects that `driver check --strict` rejects")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Publish; returns the exit code.

    Raises:
        DriverError: see `py_driver.publishing.publish`; with several projects only errors that concern all.
    """
    from py_driver.publishing.publish import (
        PublishOptions,
        publish,
    )

    projects = projects_of(args)
    if args.oci:
        return run_oci(args, projects, output)
    if projects is not None and args.repo_id:
        raise error(Code.USAGE, "--repo-id is for a single project", help="name one directory, without --changed-since")
    releases = releases_of(args)
    options = PublishOptions(
        repo_id=args.repo_id,
        branch=args.branch,
        private=args.private,
        create_pr=args.create_pr,
        dry_run=args.dry_run,
        allow_dirty=args.allow_dirty,
        strict=args.strict,
        strict_archs=args.strict_archs,
        words=words_of(args, several=projects is not None),
        slices=args.slice,
    )
    if projects is None:
        done = publish(args.directories[0], args.variant, releases, output, options)
        if args.json:
            output.json(_as_json(done, dry_run=args.dry_run))
        else:
            _show(done, output, dry_run=args.dry_run)
        return ExitCode.OK
    taken: dict[tuple[str, str], Path] = {}
    outcomes = for_each(projects, lambda path: publish(path, args.variant, releases, output, options, taken), output)
    if args.json:
        output.json(
            {"projects": [outcome.as_json(lambda done: _as_json(done, dry_run=args.dry_run)) for outcome in outcomes]}
        )
    else:
        _show_several(outcomes, output, dry_run=args.dry_run)
    return exit_code(outcomes)


def _show(done: Publication, output: Output, *, dry_run: bool) -> None:
    """Print the publication of a project, file by file."""
    for note in done.notes:
        output.say(f"note: {note}")
    verb = "would" if dry_run else "did"
    for branch in done.branches:
        for file in branch.changes.added:
            output.data(f"{verb} add     {branch.branch}  {file.path}  {file.size} bytes")
        for path in branch.changes.deleted:
            output.data(f"{verb} delete  {branch.branch}  {printable(path)}")
        if branch.url:
            output.say(f"{branch.branch}: {branch.url}")
    if not any(branch.changes.added or branch.changes.deleted for branch in done.branches):
        output.say(f"{done.address} is up to date")


def _show_several(outcomes: Sequence[Outcome[Publication]], output: Output, *, dry_run: bool) -> None:
    """Print one table of the publications of several projects, including projects that failed."""
    for done in (outcome.value for outcome in outcomes if outcome.value):
        for note in done.notes:
            output.say(f"note: {done.repo_id}: {note}")
        for branch in done.branches:
            if branch.url:
                output.say(f"{done.repo_id} {branch.branch}: {branch.url}")
    if outcomes:
        rows = [
            [printable(variant) for variant in row] for outcome in outcomes for row in _rows(outcome, dry_run=dry_run)
        ]
        output.table(_HEADER, rows, right=_NUMBERS)
    output.say(summary(outcomes, "checked" if dry_run else "published"))


def _rows(outcome: Outcome[Publication], *, dry_run: bool) -> Iterator[list[str]]:
    """The rows of a project: one for each branch, or one with the reason that there is none."""
    if outcome.value is None:
        yield [str(outcome.directory), "-", "-", "-", "-", "-", outcome.described()]
        return
    for branch in outcome.value.branches:
        changes = branch.changes
        counts = (len(changes.added), len(changes.deleted), changes.same)
        shown = _outcome(branch, dry_run=dry_run)
        yield [str(outcome.directory), outcome.value.repo_id, branch.branch, *map(str, counts), shown]


def _outcome(branch: Published, *, dry_run: bool) -> str:
    """The outcome of a branch, in a few words."""
    if not (branch.changes.added or branch.changes.deleted):
        return "pull request is open" if branch.url else "up to date"
    return "would change" if dry_run else "changed"


def _as_json(done: Publication, *, dry_run: bool) -> dict[str, Any]:
    return {
        "repo-id": done.repo_id,
        "url": done.address,
        "dry-run": dry_run,
        "variants": list(done.variants),
        "notes": list(done.notes),
        "branches": [
            {
                "branch": branch.branch,
                "url": branch.url or None,
                "added": [{"path": f.path, "size": f.size, "sha256": f.sha256} for f in branch.changes.added],
                "deleted": list(branch.changes.deleted),
                "same": branch.changes.same,
            }
            for branch in done.branches
        ],
    }
