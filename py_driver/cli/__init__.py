"""The command line: one module a command, loaded only when its command is used.

Each module has `add(subparsers)`, which describes the command's arguments, and `run(args, output)`, which does the work
and returns the exit code.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from py_driver import __version__
from py_driver.errors import Code, error
from py_driver.output import terminal_width
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.matrix.releases import Releases
    from py_driver.matrix.select import Words
    from py_driver.output import Output

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  (argparse names no public type)

COMMANDS = {
    "abi-check": "check whether built libraries load on every supported system, also beside other kernels",
    "asm": "show the machine code of kernels, and what they use of the GPU; no GPU is needed",
    "bazel": "run Bazel in the current workspace",
    "bench": "build the variant that this machine runs, check it, and time it beside its reference",
    "build": "build variants into build/",
    "cache": "show what lies in the cache, remove what nothing needs, or serve a remote cache",
    "card": "show what a kernel offers, as the card of its repository or as a page",
    "check": "report all mistakes in build.toml and in the files that it lists",
    "completion": "print what makes a shell complete commands, options and their values",
    "demo": "build a project and run its example with the built variants",
    "device": "show the GPU, what it can do, and which tools are there",
    "explain": "explain an error and say how to correct it",
    "fetch": "fetch the archives of variants into the store, or into a mirror for machines without network",
    "gen": "write BUILD.bazel from build.toml",
    "init": "begin a project from a template",
    "lock": "write the lock of the toolchains from the matrix of releases",
    "profile": "profile one workload with Nsight Compute, and show what matters of it",
    "publish": "put built variants on the Hugging Face Hub, in one commit",
    "run": "build the variant that this machine runs, and run a command with it",
    "schema": "print the JSON Schema of build.toml, for editors",
    "test": "build the variant that this machine runs, and test it",
    "tune": "find the fastest configuration of a kernel for each problem, and write it into a header",
    "upgrade": "rewrite build.toml as the current edition, and keep comments and order",
    "variants": "list the variants of a project",
    "verify": "build variants without any cache and compare them with those in build/",
    "wheel": "make a Python wheel of built variants",
}
"""The commands and what each does, in one line. The command `x-y` is the module `py_driver.cli.x_y`."""


WITH_COMMAND = frozenset({"run", "test"})
"""The commands that have a command of the user's after `--`: `args.command`, its words."""

MATRIX_VARIABLE = "RULES_TORCH_KERNELS_MATRIX"
"""Environment variable that names a matrix of the user's own."""


def sentence(command: str) -> str:
    """What a command does, as a sentence."""
    summary = COMMANDS[command]
    return f"{summary[0].upper()}{summary[1:]}."


def add_matrix(parser: argparse.ArgumentParser) -> None:
    """Add the argument of all commands that read the matrix."""
    parser.add_argument(
        "--matrix",
        metavar="FILE",
        type=Path,
        help="a file with releases of your own, besides toolchains/matrix.toml, or with the CPUs of default variants "
        f"(default: ${MATRIX_VARIABLE})",
    )


def releases_of(args: argparse.Namespace) -> Releases:
    """The releases that a command works with: ours, and those of the matrix that the user names."""
    from py_driver.matrix.releases import Releases  # noqa: PLC0415  (`driver --help` does without them)

    named = getattr(args, "matrix", None) or os.environ.get(MATRIX_VARIABLE)
    return Releases(Path(named) if named else None)


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Add the argument of all commands that are about a project: where it is."""
    parser.add_argument(
        "directory",
        metavar="DIR",
        nargs="?",
        type=Path,
        default=Path(),
        help="the directory of the project (default: .)",
    )


def add_directories(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of commands that take several projects: where they are, and which of them."""
    parser.add_argument(
        "directories",
        metavar="DIR",
        nargs="*",
        type=Path,
        default=[Path()],
        help="the directory of a project, or one that holds projects (default: .)",
    )
    parser.add_argument(
        "--changed-since",
        metavar="REV",
        help="only the projects with a file that differs from this commit of git, e.g. origin/main",
    )


def add_project(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the arguments of all commands that plan a project: where it is, and how strict to be.

    Args:
        parser: of the command.
        several: whether it takes several projects.
    """
    if several:
        add_directories(parser)
    else:
        add_directory(parser)
    parser.add_argument(
        "--strict-archs",
        action="store_true",
        help="fail if a GPU architecture that a section asks for is not built (default: exclude it)",
    )
    add_matrix(parser)


def add_variants(parser: argparse.ArgumentParser, default: str, *, several: bool = False) -> None:
    """Add the arguments of all commands that are about variants of a project.

    Args:
        parser: of the command.
        default: the variants if none are named, in words.
        several: whether the command takes several projects.
    """
    add_project(parser, several=several)
    parser.add_argument(
        "--variant",
        metavar="GLOB",
        action="append",
        default=[],
        help=f"select variants by identifier, e.g. 'torch213-*-{{cpu,cu130}}-*'; repeatable (default: {default})",
    )
    parser.add_argument(
        "--torch",
        metavar="M.N",
        action="append",
        default=[],
        type=release,
        help="select the variants for a torch release, e.g. 2.13; repeatable",
    )
    parser.add_argument(
        "--backend",
        metavar="NAME",
        action="append",
        default=[],
        help="select the variants for a backend, e.g. cpu, cu130, or cuda for all CUDA releases; repeatable",
    )
    parser.add_argument(
        "--cpu",
        action="append",
        default=[],
        choices=("x86_64", "aarch64"),
        help="select the variants for a CPU, e.g. aarch64 for Arm servers; repeatable (default: x86_64, or what "
        "--matrix says, or whatever is built already)",
    )


def add_format(parser: argparse.ArgumentParser, json: str) -> None:
    """Add the arguments of commands whose errors have places in files: for whom the result is printed.

    Args:
        parser: of the command.
        json: the help of `--json`.
    """
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help=json)
    group.add_argument(
        "--annotations",
        choices=("github",),
        help="also print errors, warnings and notes to stdout in the form that GitHub Actions shows beside the line",
    )


def page(text: str) -> Path:
    """The path of a page from the command line."""
    if Path(text).suffix != ".html":
        raise argparse.ArgumentTypeError(f"`{text}` does not end in .html")
    return Path(text)


def release(text: str) -> str:
    """A version of torch from the command line."""
    if not re.fullmatch(r"[0-9]{1,4}\.[0-9]{1,4}", text, re.ASCII):
        minor = re.match(r"[0-9]{1,4}\.[0-9]{1,4}(?=\.)", text, re.ASCII)
        raise argparse.ArgumentTypeError(f"`{text}` is not a version like {minor[0] if minor else '2.13'}")
    return text


def words_of(args: argparse.Namespace, *, several: bool) -> Words:
    """The torch releases, backends and CPUs that a command line names.

    Args:
        args: the command line.
        several: whether it is about several projects.
    """
    from py_driver.matrix.select import Words  # noqa: PLC0415  (`driver --help` does without them)

    return Words(torch=tuple(args.torch), backends=tuple(args.backend), cpus=tuple(args.cpu), in_any=several)


def with_command(name: str | None, arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The words of a command line that are the driver's, and those of the user's own command.

    Args:
        name: of the driver's command.
        arguments: all words.
    """
    if name not in WITH_COMMAND or "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


class _Formatter(argparse.HelpFormatter):
    """argparse's own, told the width: it would load a slow module to find it out, for every argument."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_width() - 2)


class Command(Protocol):
    """What the module of a command offers."""

    def add(self, subparsers: Subparsers) -> None:
        """Add the command's parser."""

    def run(self, args: argparse.Namespace, output: Output) -> int:
        """Do the work; the exit code."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are DriverErrors; help is as wide as the terminal, options are whole words."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  (argparse's own)
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise USAGE."""
        raise error(Code.USAGE, message, help=f"see `{self.prog} --help`")


def load_command(name: str) -> Command:
    """The module of a command."""
    return cast("Command", importlib.import_module(f"py_driver.cli.{name.replace('-', '_')}"))


def _side_by_side(words: Sequence[str], late: Sequence[str]) -> list[str]:
    """A command line with words that stand after options beside those before them.

    Args:
        words: of the command line.
        late: those of them that argparse has no place for.
    """
    before = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    after = list(words[len(before) :])
    if not all(after.count(word) for word in late):
        return [*words]
    for word in late:
        after.reverse()
        after.remove(word)
        after.reverse()
    return [*before, *late, *after]


def run_command_line(arguments: Sequence[str], output: Output) -> int:
    """Do what a command line says.

    Args:
        arguments: without the program's name.
        output: where to print.

    Returns:
        The exit code.

    Raises:
        DriverError: USAGE for a wrong command line, and all that the command raises.
        SystemExit: after `--help` and `--version`.
    """
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS)
        raise error(
            Code.USAGE, f"unknown command `{name}`", help=f"{hint}{' ' if hint else ''}commands: {', '.join(COMMANDS)}"
        )
    parser = Parser(prog="driver", description="Build PyTorch GPU kernels from build.toml with Bazel.")
    parser.add_argument("--version", action="version", version=f"driver {__version__}")
    subparsers: Subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)  # type: ignore[assignment]
    if name is not None:
        load_command(name).add(subparsers)
    else:
        for command, summary in COMMANDS.items():
            subparsers.add_parser(command, help=summary, add_help=False)
    own, rest = with_command(name, arguments)
    args, unknown = parser.parse_known_args(own)
    if unknown and not any(word.startswith("-") for word in unknown):
        # argparse takes DIR and FUNCTION only side by side: `asm DIR --archs 9.0 FUNCTION`.
        args, unknown = parser.parse_known_args(_side_by_side(own, unknown))
    if unknown:
        advice = "; write your own command after `--`" if name in WITH_COMMAND and "--" not in arguments else ""
        message = f"unrecognized arguments: {' '.join(unknown)}"
        raise error(Code.USAGE, message, help=f"see `driver {name} --help`{advice}")
    args.command = rest
    if name is None:
        parser.error("a command is missing")
    from py_driver.cli.variables import take_variables  # noqa: PLC0415  (`driver --help` does without it)

    take_variables(name, args, output)
    output.annotates = getattr(args, "annotations", None) is not None
    return load_command(name).run(args, output)
