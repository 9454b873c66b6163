"""`driver publish --oci`: its options and its output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py_driver.cli.arguments import releases_of, words_of
from py_driver.errors import Code, ExitCode, error
from py_driver.output import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from py_driver.output import Output
    from py_driver.publishing.publish_oci import Artifact


def run_oci(args: argparse.Namespace, projects: Sequence[object] | None, output: Output) -> int:
    """Publish to a registry; returns the exit code.

    Args:
        args: the command line.
        projects: the projects of the command line; None for a single one.
        output: where to print.

    Raises:
        DriverError: USAGE; see `publish_oci`.
    """
    from py_driver.publishing.publish_oci import OciOptions, publish_oci

    hub_only = {
        "--repo-id": args.repo_id,
        "--branch": args.branch,
        "--private": args.private,
        "--create-pr": args.create_pr,
        "--slice": args.slice,
    }
    for option, value in hub_only.items():
        if value:
            raise error(Code.USAGE, f"{option} is for the Hub, and --oci for a registry", help="publish to one of them")
    if projects is not None:
        raise error(Code.USAGE, "--oci is for a single project", help="name one directory, without --changed-since")
    options = OciOptions(
        reference=args.oci,
        dry_run=args.dry_run,
        allow_dirty=args.allow_dirty,
        strict=args.strict,
        strict_archs=args.strict_archs,
        words=words_of(args, several=False),
    )
    done = publish_oci(args.directories[0], args.variant, releases_of(args), output, options)
    if args.json:
        output.json(_as_json(done, dry_run=args.dry_run))
    else:
        _show(done, output, dry_run=args.dry_run)
    return ExitCode.OK


def _show(done: Artifact, output: Output, *, dry_run: bool) -> None:
    """Print each published variant."""
    for note in done.notes:
        output.say(f"note: {note}")
    verb = "would send" if dry_run else "sent"
    for variant in done.variants:
        counts = (
            f"{verb} {variant.sent}, {variant.same} the same, {counted(len(variant.attached), 'document')} attached"
        )
        output.data(f"{variant.tag}  {variant.digest}  {counts}")
    state = "would change" if dry_run else "changed"
    output.say(f"{done.reference} {state if done.changed else 'is up to date'}: {done.digest}")


def _as_json(done: Artifact, *, dry_run: bool) -> dict[str, Any]:
    return {
        "reference": str(done.reference),
        "digest": done.digest,
        "changed": done.changed,
        "dry-run": dry_run,
        "notes": list(done.notes),
        "variants": [
            {
                "variant": variant.variant,
                "tag": variant.tag,
                "digest": variant.digest,
                "attached": [{"digest": digest, "type": kind} for digest, kind in variant.attached],
                "sent": variant.sent,
                "same": variant.same,
            }
            for variant in done.variants
        ],
    }
