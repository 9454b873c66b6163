"""`driver init`: creates a project from a template."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.cli import add_command
from py_driver.cli.arguments import add_matrix, listed, releases_of
from py_driver.errors import Code, DriverError, ExitCode, error

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


_EXAMPLE: Final = "e.g. driver init --name my-name/fast-relu"


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "init", "--name me/silu", "silu --template elementwise --backends cpu,cuda")
    parser.add_argument(
        "directory",
        metavar="DIR",
        nargs="?",
        type=Path,
        help="directory of the project, created if missing; nothing in it is overwritten (default: NAME)",
    )
    parser.add_argument(
        "--name",
        metavar="OWNER/NAME",
        help="the project's repository on the Hugging Face Hub, or only its name (default: the name of DIR)",
    )
    parser.add_argument("--template", metavar="T", help="a template of `driver init --list` (default: elementwise)")
    parser.add_argument(
        "--backends",
        metavar="NAME",
        nargs="+",
        type=listed,
        default=[],
        help="write the template for these backends only, e.g. cpu,cuda (default: all backends of the template)",
    )
    parser.add_argument("--list", action="store_true", help="list the templates; write nothing")
    parser.add_argument(
        "--skill",
        metavar="DIR",
        type=Path,
        help="write the skill for coding assistants instead of a project: DIR is their directory of skills, e.g. "
        ".agents/skills or ~/.claude/skills",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_matrix(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Write a project; returns the exit code.

    Raises:
        DriverError: see `_list`, `_skill` and `new_project`.
    """
    from py_driver.authoring.new_project import (
        CI_FILE,
        DEFAULT,
        begin_repository,
        check_name,
        create,
        rendered,
        surroundings,
        template_of,
    )
    from py_driver.editor.project import begin

    if args.skill is not None:
        return _skill(args, output)
    if args.list:
        return _list(args, output)
    backends = [backend for words in args.backends for backend in words]
    if args.directory is None and args.name is None:
        advice = f"put DIR before --backends: `{backends[-1]}` counts as a backend" if backends else _EXAMPLE
        raise error(Code.USAGE, "neither DIR nor --name is given", help=advice)
    owner, name = check_name(args.name) if args.name is not None else ("", _named(args.directory))
    directory = args.directory or Path(name)
    around = surroundings(directory)
    files = rendered(template_of(args.template or DEFAULT), name, owner, backends, around)
    releases = releases_of(args)
    kept = create(directory, files, releases)
    repository = around.has_git and not around.in_repository
    if repository:
        begin_repository(directory)
    written = [*(path for path in files if path not in kept), *begin(directory, releases, output)]
    if args.json:
        output.json({"directory": str(directory), "files": written, "kept": kept, "repository": repository})
        return ExitCode.OK
    for path in written:
        output.data(str(directory / path))
    for path in kept:
        output.say(f"kept {directory / path}, which existed before")
    if around.below_root:
        output.say(f"no {CI_FILE}: it belongs at the root of the repository (docs/ci.md)")
    output.say(f"next: driver test {shlex.quote(str(directory))}")
    return ExitCode.OK


def _list(args: argparse.Namespace, output: Output) -> int:
    """List the templates; returns the exit code.

    Raises:
        DriverError: USAGE if a project is named, too.
    """
    from py_driver.authoring.new_project import templates

    if args.directory or args.name or args.template or args.backends:
        raise error(Code.USAGE, "--list writes no project", help="write `driver init --list`")
    known = templates().values()
    if args.json:
        output.json({"templates": [{**template._asdict(), "skips": [*template.skips]} for template in known]})
    else:
        output.table(("template", "backends", "shows"), [(t.name, " ".join(t.backends), t.summary) for t in known])
    return ExitCode.OK


def _skill(args: argparse.Namespace, output: Output) -> int:
    """Write the skill for coding assistants; returns the exit code.

    Raises:
        DriverError: USAGE if a project is named, too; see `write_skill`.
    """
    from py_driver.authoring.skill import write_skill

    if args.directory or args.name or args.template or args.backends or args.list:
        raise error(Code.USAGE, "--skill writes no project", help="write `driver init --skill DIR`")
    files = write_skill(args.skill)
    if args.json:
        output.json({"directory": str(args.skill), "files": files, "kept": [], "repository": False})
        return ExitCode.OK
    for path in files:
        output.data(str(args.skill / path))
    return ExitCode.OK


def _named(directory: Path) -> str:
    """A project's name from its directory's: in lower case, with `-` for characters that names cannot have.

    Raises:
        DriverError: USAGE if the result is not a valid name.
    """
    from py_driver.authoring.new_project import check_name

    own = directory.resolve().name
    name = re.sub(r"[^a-z0-9_-]+", "-", own.lower()).strip("-_")
    try:
        return check_name(name)[1]
    except DriverError as problem:
        [found] = problem.diagnostics
        message = f"the directory's name `{own}` gives the project no name: {found.message}"
        raise error(Code.USAGE, message, help="name the project: --name NAME") from None
