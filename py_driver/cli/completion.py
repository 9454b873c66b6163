"""`driver completion`: prints a completion script for a shell, which calls the driver for the words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py_driver.cli import ALIASES, COMMANDS, WITH_COMMAND, Parser, add_command, load_command
from py_driver.cli.arguments import CPUS
from py_driver.errors import DriverError, ExitCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from py_driver.cli import Subparsers
    from py_driver.output import Output

    Completer = Callable[..., Iterable[str]]

_PROGRAMS: Final = ("driver", "torch-kernels")
"""The names of the driver on PATH: `project.scripts` of pyproject.toml."""


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "completion", "bash", "fish")
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell for the script")


def run(args: argparse.Namespace, output: Output) -> int:
    """Print the script of a shell; returns the exit code."""
    from argcomplete.shell_integration import shellcode

    output.data(shellcode(_PROGRAMS, use_defaults=False, shell=args.shell).rstrip("\n"))
    return ExitCode.OK


def complete() -> None:
    """Answer the shell by argcomplete's protocol in the environment, and end the process."""
    import argcomplete

    words = os.environ["COMP_LINE"].split()
    parser = Parser(prog="driver")
    parser.add_argument("-V", "--version", action="store_true", help="show the version and exit")
    subparsers: Subparsers = parser.add_subparsers()
    for name, summary in COMMANDS.items():
        if name in words:
            load_command(name).add(subparsers)
            if name in WITH_COMMAND and "--" in words:
                subparsers.choices[name].add_argument("command", nargs="*", metavar="FILE")
            _add_completers(name, subparsers.choices[name])
        else:
            subparsers.add_parser(name, help=summary)
    for alias, name in ALIASES.items():
        if alias in words:
            named: Subparsers = Parser(prog="driver").add_subparsers()
            load_command(name).add(named)
            subparsers.choices[alias] = named.choices[name]
            _add_completers(name, subparsers.choices[alias])
        else:
            subparsers.add_parser(alias, help=COMMANDS[name])
    subparsers.add_parser("help", help="show the help of a command").add_argument(
        "command", nargs="?", choices=[*COMMANDS]
    )
    subparsers.add_parser("version", help="show the version")
    argcomplete.autocomplete(
        parser, always_complete_options=False, default_completer=argcomplete.completers.SuppressCompleter()
    )


def _add_completers(command: str, parser: argparse.ArgumentParser) -> None:
    """Set the completer of each argument of a command; argcomplete itself handles `choices`."""
    for action in parser._actions:  # noqa: SLF001  (argparse has no public way)
        if action.nargs != 0 and (completer := _completer(command, action)):
            action.completer = completer  # type: ignore[attr-defined] # argcomplete reads it


def _completer(command: str, action: argparse.Action) -> Completer | None:
    """The completer of an argument's values; None if the values are unknown."""
    from argcomplete.completers import DirectoriesCompleter, FilesCompleter

    if (command, action.dest) == ("explain", "code"):
        from py_driver.cli.explain import spell
        from py_driver.errors import Code

        return lambda **_: [word for code in Code for word in (code.number, spell(code))]
    if (command, action.dest) == ("init", "template"):
        from py_driver.authoring.new_project import templates

        return lambda **_: templates()
    if action.dest == "cpu":
        return lambda **_: CPUS
    if action.dest == "variant":
        return _variants
    if action.metavar == "DIR":
        return DirectoriesCompleter()
    return FilesCompleter() if action.type is Path or str(action.metavar).startswith("FILE") else None


def _variants(parsed_args: argparse.Namespace, **_: Any) -> list[str]:  # noqa: ANN401  (argcomplete passes more)
    """The identifiers of the first project of a command line."""
    from py_driver.cli.arguments import releases_of
    from py_driver.plan.plan import plan_directory

    directories = getattr(parsed_args, "directories", None) or [getattr(parsed_args, "directory", None) or Path()]
    try:
        return [variant.name for variant in plan_directory(directories[0], releases_of(parsed_args)).variants]
    except DriverError:
        return []
