"""`driver publish`: puts built variants on the Hugging Face Hub, in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py_driver.cli import COMMANDS, add_variants, releases_of, sentence, words_of
from py_driver.errors import ExitCode
from py_driver.output import printable

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output
    from py_driver.publishing.publish import Publication


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser(
        "publish",
        help=COMMANDS["publish"],
        description=f"{sentence('publish')} It uses the token of `hf auth login`, or HF_TOKEN.",
    )
    add_variants(parser, default="all that are in build/")
    parser.add_argument(
        "--repo-id", metavar="OWNER/NAME", default="", help="the repository (default: as build.toml says)"
    )
    parser.add_argument(
        "--branch", metavar="NAME", default="", help="the branch (default: as build.toml says, or v<version>)"
    )
    parser.add_argument(
        "--private",
        action="store_true",
        help="if there is no repository yet, create a private one (default: a public one)",
    )
    parser.add_argument("--create-pr", action="store_true", help="open a pull request instead of committing")
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    parser.add_argument("--allow-dirty", action="store_true", help="publish even if the sources differ from the commit")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Publish; the exit code.

    Raises:
        DriverError: see `py_driver.publishing.publish`.
    """
    from py_driver.publishing.publish import (  # noqa: PLC0415  (`driver --help` needs none of these)
        PublishOptions,
        publish,
    )

    options = PublishOptions(
        repo_id=args.repo_id,
        branch=args.branch,
        private=args.private,
        create_pr=args.create_pr,
        dry_run=args.dry_run,
        allow_dirty=args.allow_dirty,
        strict_archs=args.strict_archs,
        words=words_of(args),
    )
    done = publish(args.directory, args.variant, releases_of(args), output, options)
    if args.json:
        output.json(_as_json(done, dry_run=args.dry_run))
        return ExitCode.OK
    for note in done.notes:
        output.say(f"note: {note}")
    verb = "would" if args.dry_run else "did"
    for branch in done.branches:
        for file in branch.changes.added:
            output.data(f"{verb} add     {branch.branch}  {file.path}  {file.size} bytes")
        for path in branch.changes.deleted:
            output.data(f"{verb} delete  {branch.branch}  {printable(path)}")
        if branch.url:
            output.say(f"{branch.branch}: {branch.url}")
    if not any(branch.changes.added or branch.changes.deleted for branch in done.branches):
        output.say(f"{done.address} is up to date")
    return ExitCode.OK


def _as_json(done: Publication, *, dry_run: bool) -> dict[str, Any]:
    return {
        "repo-id": done.repo_id,
        "url": done.address,
        "dry-run": dry_run,
        "variants": list(done.variants),
        "notes": list(done.notes),
        "branches": [
            {
                "branch": one.branch,
                "url": one.url or None,
                "added": [{"path": f.path, "size": f.size, "sha256": f.sha256} for f in one.changes.added],
                "deleted": list(one.changes.deleted),
                "same": one.changes.same,
            }
            for one in done.branches
        ],
    }
