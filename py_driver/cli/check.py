"""`driver check`: reports all mistakes in build.toml and in the files that it lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.cli import add_command
from py_driver.cli.arguments import add_format, add_project, releases_of
from py_driver.cli.bindings import EVERY, add_bindings, all_pythons, bindings_of, pythons_of_build_toml
from py_driver.cli.projects import exit_code, extensions_of, for_each, projects_of, run_extensions, summary
from py_driver.errors import Code, DriverError, ExitCode, error
from py_driver.output import counted, printable

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from py_driver.authoring.header_trial import Tried
    from py_driver.cli import Subparsers
    from py_driver.errors import Note
    from py_driver.manifest.model import Manifest
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.for_pythons import Pythons
    from py_driver.plan.plan import Variant


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "check", "relu --strict", "--changed-since origin/main --annotations github")
    add_project(parser, several=True)
    parser.add_argument(
        "--strict", action="store_true", help="treat likely mistakes that kernel-builder accepts as errors"
    )
    parser.add_argument(
        "--headers",
        action="store_true",
        help="compile each source that includes an umbrella header of torch, e.g. torch/all.h, with smaller headers, "
        "and report faster ones",
    )
    parser.add_argument("--fix", action="store_true", help="with --headers, write the smaller headers into the sources")
    add_bindings(parser, EVERY)
    add_format(parser, "print the result as JSON")


def _pythons(args: argparse.Namespace, releases: Releases) -> Pythons | None:
    """The Pythons of a configuration; None unless projects with a build.toml are to be bound by pybind11.

    Raises:
        DriverError: USAGE.
    """
    if not pythons_of_build_toml(args):
        return None
    if args.headers:
        message = "`--headers` tries smaller headers of torch, and `--binding pybind` needs torch/extension.h"
        raise error(Code.USAGE, message, help="leave one of them out")
    return bindings_of(args, releases.matrix, all_pythons).pythons


class Checked(NamedTuple):
    """A valid project.

    Attributes:
        manifest: its build.toml.
        variants: its variants; empty if nothing of it can be built here, e.g. for another backend.
        notes: facts that are worth knowing and not errors.
        headers: the savings by smaller headers; None if not requested.
    """

    manifest: Manifest
    variants: tuple[Variant, ...]
    notes: tuple[Note, ...]
    headers: Tried | None = None


def run(args: argparse.Namespace, output: Output) -> int:
    """Check; returns the exit code.

    A valid project without a variant to build here, e.g. for another backend, passes with a note.

    Raises:
        DriverError: what `project.load` raises; ARCH_DROPPED; with `--strict` the codes of the notes; with `--headers`
            what a build raises; USAGE for `--fix` without `--headers`. With several projects only errors that concern
            all.
    """
    if args.fix and not args.headers:
        raise error(Code.USAGE, "`--fix` needs `--headers`", help="write `driver check --headers --fix`")
    if extensions_of(args):
        from py_driver.cli import extension

        return run_extensions(
            args, output, lambda directory: extension.check(directory, args, output), run, as_json=args.json
        )
    projects = projects_of(args)
    releases = releases_of(args)
    pythons = _pythons(args, releases)

    def work(directory: Path) -> Checked:
        checked = check(directory, releases, strict=args.strict, strict_archs=args.strict_archs, pythons=pythons)
        if args.headers and checked.variants:
            checked = checked._replace(headers=_smaller(directory, releases, output, fix=args.fix))
        if not args.json:
            _show(checked, output)
            if checked.headers is not None:
                _show_headers(directory, checked.headers, output, fixed=args.fix)
        return checked

    if projects is None:
        checked = work(args.directories[0])
        if args.json:
            output.json(_as_json(checked))
        return ExitCode.OK
    outcomes = for_each(projects, work, output)
    if args.json:
        output.json({"projects": [outcome.as_json(_as_json) for outcome in outcomes]})
    else:
        output.say(summary(outcomes, "valid"))
    return exit_code(outcomes)


def check(
    directory: Path, releases: Releases, *, strict: bool, strict_archs: bool, pythons: Pythons | None = None
) -> Checked:
    """Check a project.

    Args:
        directory: the directory of the project.
        releases: the releases to build for.
        strict: whether likely mistakes are errors.
        strict_archs: see `make_plan`.
        pythons: see `plan_directory`.

    Raises:
        DriverError: see `run`.
    """
    from py_driver.errors import Note
    from py_driver.plan.for_pythons import for_pythons
    from py_driver.plan.gradients import gradient_notes
    from py_driver.plan.jit_notes import jit_notes
    from py_driver.plan.layer_notes import layer_notes
    from py_driver.plan.plan import make_plan
    from py_driver.plan.project import load
    from py_driver.plan.syntax_notes import syntax_notes

    project = load(directory, releases, pybind=pythons is not None)
    notes = (
        *project.notes,
        *gradient_notes(project),
        *jit_notes(project),
        *layer_notes(project),
        *syntax_notes(project),
        *_stale(directory, project.manifest, releases),
    )
    if strict and project.doubts:
        raise DriverError(project.doubts)
    try:
        plan = make_plan(project, releases.matrix, strict_archs=strict_archs)
    except DriverError as failure:
        if failure.diagnostics[0].code is not Code.NO_VARIANTS:
            raise
        note = Note(message=failure.diagnostics[0].message, span=project.manifest.framework.span)
        return Checked(manifest=project.manifest, variants=(), notes=(*notes, note))
    if pythons:
        chosen = [variant for variant in plan.variants if variant.default] or [*plan.variants]
        plan = for_pythons(plan, chosen, releases.matrix, pythons)
    return Checked(manifest=project.manifest, variants=plan.variants, notes=notes)


def _stale(directory: Path, manifest: Manifest, releases: Releases) -> list[Note]:
    """A note for each file of `driver tune` that was measured with other sources."""
    from py_driver.errors import Note

    if not any((directory / "tuning").glob("*.toml")):
        return []
    from py_driver.tuning.tuner import stale_records

    return [
        Note(message=f"{file} was measured with other sources; run `driver tune`", span=manifest.framework.span)
        for file in stale_records(directory, releases)
    ]


def _smaller(directory: Path, releases: Releases, output: Output, *, fix: bool) -> Tried:
    """Try smaller headers, and with `fix` write them into the sources."""
    from py_driver.authoring.header_trial import apply, try_smaller_headers

    tried = try_smaller_headers(directory, releases, output)
    if fix:
        apply(directory, tried)
    return tried


def _as_json(checked: Checked) -> dict[str, Any]:
    """A valid project as a value for JSON."""
    return {
        "file": checked.manifest.file,
        "edition": checked.manifest.edition,
        "variants": [variant.name for variant in checked.variants],
        "notes": [note.as_json() for note in checked.notes],
        "errors": [],
        **({"headers": checked.headers.as_json()} if checked.headers is not None else {}),
    }


def _show(checked: Checked, output: Output) -> None:
    """Print that a project is valid."""
    from py_driver.manifest.model import CURRENT

    manifest, variants = checked.manifest, checked.variants
    output.notes(checked.notes)
    default = sum(variant.default for variant in variants)
    named = f", {len(variants) - default} more on request" if len(variants) > default else ""
    advice = "" if manifest.edition >= CURRENT else f"; `driver upgrade` writes edition {CURRENT}"
    summary = f"{manifest.file} is valid: edition {manifest.edition}, {counted(default, 'variant')}{named}{advice}"
    output.say(printable(summary))


def _show_headers(directory: Path, tried: Tried, output: Output, *, fixed: bool) -> None:
    """Print the smaller headers that suffice, and their savings."""
    for name, macro in tried.left.items():
        reason = f"an `#if` depends on `{macro}`, which a header may define"
        output.say(printable(f"note: {directory / name} stays: {reason}"))
    if not tried.variants:
        rest = "other " if tried.left else ""
        output.say(f"No {rest}file includes an umbrella header of torch in a plain line, outside of an `#if`.")
        return
    if not tried.edits:
        output.say("No smaller headers of torch compile faster.")
        return
    for name, edits in tried.edits.items():
        for edit in edits:
            instead = ", ".join(f"<{header}>" for header in edit.instead) or "nothing: no name in the file needs it"
            output.say(printable(f"{directory / name}:{edit.line}: <{edit.header}> -> {instead}"))
    for gain in tried.gains:
        both = zip(gain.before, gain.after, ("for each architecture", "for the rest"), strict=True)
        alone = not gain.before.arch
        parts = [f"{old:.1f} s -> {new:.1f} s{'' if alone else f' {scope}'}" for old, new, scope in both if old]
        output.say(printable(f"    {gain.source}: {', '.join(parts)}"))
    advice = "The sources include these now; run their tests" if fixed else "`--fix` writes these into the sources"
    output.say(f"{advice}. Compiled for {', '.join(tried.variants)}, each header with all its includes.")
