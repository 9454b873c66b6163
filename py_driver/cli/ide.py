"""`driver ide`: writes compile commands and settings for editors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import add_variants, releases_of, words_of
from py_driver.cli.bindings import OWN, add_bindings, bindings_of, own_python, pythons_of_build_toml
from py_driver.errors import ExitCode
from py_driver.output import counted, printable
from py_driver.plan.projects import is_extension

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from py_driver.cli import Subparsers
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.select import Words
    from py_driver.output import Output
    from py_driver.plan.plan import Plan


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "ide",
        "relu",
        "relu --variant torch213-cu130",
        more="It overwrites none of your files; docs/development.md has a section on editors.",
    )
    add_variants(parser, "the default variant for the newest torch and CUDA")
    add_bindings(parser, OWN)
    parser.group("report").add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Write the files; returns the exit code.

    Raises:
        DriverError: an error in the project; what `write_database` and `prepare_settings` raise.
    """
    from py_driver.editor.database import write_database
    from py_driver.editor.project import prepare_settings

    releases, words = releases_of(args), words_of(args, several=False)
    plans, edition = _planned(args, releases, words, output)
    is_one = edition is None or bool(args.binding)  # then the plans contain only the chosen variant
    shown = write_database(args.directory, plans, releases, output, *(() if is_one else (args.variant, words)))
    written, users = prepare_settings(args.directory, plans, edition)
    if args.json:
        output.json({**shown._asdict(), "files": written, "users": users})
        return ExitCode.OK
    if shown.sources:
        output.say(f"compile_commands.json: {counted(len(shown.sources), 'source')} of {shown.variant}")
    if shown.left:
        names = ", ".join(map(printable, shown.left))
        output.say(f"note: no entry for {names}: no chosen variant for CUDA or the CPU compiles it")
    output.say(f"settings: {', '.join(written) or 'none'}")
    if users:
        output.say(f"note: not overwritten: {', '.join(users)}")
    return ExitCode.OK


def _planned(
    args: argparse.Namespace, releases: Releases, words: Words, output: Output
) -> tuple[Sequence[Plan], int | None]:
    """The plans of a project, and the edition of its build.toml; None if it has a setup.py.

    Raises:
        DriverError: an error in the project.
    """
    directory = args.directory
    if is_extension(directory):
        from py_driver.building.build import Options
        from py_driver.building.extension import candidates, plan_extension
        from py_driver.building.selection import choose
        from py_driver.editor.database import most_telling

        chosen = choose(candidates(directory, releases.matrix, words.backends), args.variant, words)
        first = most_telling(chosen, releases.matrix).name
        bindings, options = bindings_of(args, releases.matrix, own_python), Options(strict_archs=args.strict_archs)
        return plan_extension(directory, [first], releases, output, options, bindings).plans, None
    from py_driver.plan.plan import make_plan
    from py_driver.plan.project import load

    by_pybind = pythons_of_build_toml(args)
    project = load(directory, releases, pybind=by_pybind)
    plan = make_plan(project, releases.matrix, strict_archs=args.strict_archs)
    if by_pybind:
        from py_driver.building.selection import choose
        from py_driver.editor.database import most_telling
        from py_driver.plan.for_pythons import for_pythons

        variant = most_telling(choose(plan, args.variant, words), releases.matrix)
        plan = for_pythons(plan, [variant], releases.matrix, bindings_of(args, releases.matrix, own_python).pythons)
    return [plan], project.manifest.edition
