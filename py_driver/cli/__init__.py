"""The command line: one module for each command, loaded only when the command is used.

Each module has `add(subparsers)`, which describes the command's arguments, and `run(args, output)`, which does the work
and returns the exit code.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Protocol, cast

from py_driver import __version__
from py_driver.errors import Code, error
from py_driver.output import terminal_width
from py_driver.spelling import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from py_driver.output import Output

    ArgumentGroup = argparse._ArgumentGroup  # noqa: SLF001  (argparse names no public type)
    Subparsers = argparse._SubParsersAction["Parser"]  # noqa: SLF001

Title = Literal["select", "compile", "schedule", "run", "measure", "show", "compare", "sign", "upload", "report"]
"""The title of a group of options."""

GROUPS: Final = {
    "Write": {
        "init": "create a project from a template",
        "check": "report all mistakes in build.toml and in the files that it lists",
        "explain": "explain an error and how to correct it",
        "upgrade": "rewrite build.toml for the current edition, keeping comments and order",
        "stable": "show which uses of torch's C++ API have an equivalent in its stable ABI, and since which torch",
        "adopt": "convert a project with a setup.py into a kernel with a build.toml",
        "gen": "write BUILD.bazel from build.toml",
        "ide": "write what editors need: compile commands with the pinned headers, settings for clangd and VS Code",
        "schema": "print the JSON Schema of build.toml, or of what a command prints with --json",
    },
    "Build and try": {
        "build": "build variants into build/",
        "run": "build the variant for this machine and run a command with it",
        "test": "build the variant for this machine and test it",
        "batch": "build many candidates of a kernel at once, check their results, and time them",
        "bench": "build the variant for this machine, check it, and time it against its reference",
        "tune": "autotune a kernel and write the best configuration of each case to a header",
        "trace": "record what Triton compiles while a command runs, and list it in aot.toml",
        "demo": "build a project and run its example with the built variants",
        "clean": "remove the built variants of a project",
    },
    "Inspect": {
        "variants": "list the variants of a project",
        "asm": "show SASS, PTX and resource usage of kernels (needs no GPU)",
        "size": "show how many bytes kernels, architectures and sections take, and how to save some",
        "diff": "show what differs between two releases, and what breaks callers",
        "profile": "profile a workload with Nsight Compute and print the key metrics",
        "device": "show the GPU, its capabilities, and the installed tools",
    },
    "Ship": {
        "verify": "rebuild variants without any cache and compare them with build/",
        "abi-check": "check whether built libraries load on every supported system, also beside other kernels",
        "card": "print the card of a kernel's repository, or write its page",
        "wheel": "pack built variants into a Python wheel",
        "index": "write a package index of wheels, for pip and uv",
        "release-check": "check the next release against the last one: what callers use, tests, benchmarks",
        "publish": "upload built variants to the Hugging Face Hub in one commit",
    },
    "Machine": {
        "doctor": "check this machine: disk, sandbox, clock, servers of archives, Bazel, torch, GPU driver, caches",
        "fetch": "download the archives of variants into the store, or into a mirror for machines without network",
        "cache": "list the contents of the cache, remove unused ones, or serve a remote cache",
        "lock": "write the lock of the toolchains from the matrix of releases",
        "bazel": "run Bazel in the current workspace",
        "completion": "print a shell completion script",
    },
}
"""The commands by purpose, each with a one-line summary. The command `x-y` is the module `py_driver.cli.x_y`."""

COMMANDS: Final = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}
"""All commands and their summaries."""

ALIASES: Final = {"list": "variants", "new": "init"}
"""Other names of commands."""

WORDS: Final = {"help": "--help", "version": "--version"}
"""Options that are also written as words: `driver help build` is `driver build --help`."""

_DESCRIPTION: Final = (
    "Build PyTorch kernels for all releases of torch, CUDA and ROCm, from a setup.py or a build.toml, with Bazel."
)

_EPILOG: Final = """\
examples:
  driver init --name me/silu      # create the project silu/
  driver run silu -- python       # build it for this machine and start Python with it

`driver help COMMAND` is `driver COMMAND --help`; `list` is `variants`, `new` is `init`, `version` is `--version`.
Documentation: docs/index.md of the repository. `driver COMMAND --help` has options and examples."""

WITH_COMMAND = frozenset({"run", "test", "trace"})
"""The commands that accept a command of the user's after `--`; its words are in `args.command`."""


def add_command(subparsers: Subparsers, name: str, *examples: str, more: str = "") -> Parser:
    """Add the parser of a command, whose help ends with examples.

    Args:
        subparsers: the subparsers of the driver.
        name: the name of the command.
        examples: two sets of arguments.
        more: sentences for the description, after the summary.
    """
    summary = COMMANDS[name]
    parser = subparsers.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {more}")
    parser.epilog = "\n".join(["examples:", *(f"  driver {name} {example}".rstrip() for example in examples)])
    return parser


def with_command(name: str | None, arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split a command line into the driver's words and those of the user's own command.

    Args:
        name: the driver's command.
        arguments: all words.
    """
    if name not in WITH_COMMAND or "--" not in arguments:
        return arguments, []
    end = arguments.index("--")
    return arguments[:end], arguments[end + 1 :]


class _Formatter(argparse.HelpFormatter):
    """argparse's formatter with a known width; indented lines of an epilog stay unchanged.

    To find the width, argparse would load a slow module, for every argument.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_width() - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n".join(line if line.startswith("  ") else fill(line, width, indent) for line in text.split("\n"))


class Command(Protocol):
    """The interface of a command's module."""

    def add(self, subparsers: Subparsers) -> None:
        """Add the command's parser."""

    def run(self, args: argparse.Namespace, output: Output) -> int:
        """Do the work; returns the exit code."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises DriverErrors, fills the terminal's width, and accepts no abbreviated options."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  (argparse's own)
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, **options)
        self._groups: dict[Title, ArgumentGroup] = {}

    def group(self, title: Title) -> ArgumentGroup:
        """The group of options with a title; the first call adds it."""
        if title not in self._groups:
            self._groups[title] = self.add_argument_group(title)
        return self._groups[title]

    def error(self, message: str) -> NoReturn:
        """Raise USAGE."""
        raise error(Code.USAGE, message, help=f"see `{self.prog} --help`")


def load_command(name: str) -> Command:
    """The module of a command."""
    return cast("Command", importlib.import_module(f"py_driver.cli.{name.replace('-', '_')}"))


def _side_by_side(words: Sequence[str], late: Sequence[str]) -> list[str]:
    """Move words that stand after options beside those before them.

    Args:
        words: the words of the command line.
        late: those that argparse cannot assign to an argument.
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


def _overview() -> Parser:
    """The parser of a command line without a command: its help lists all commands by purpose."""
    parser = Parser(prog="driver", description=_DESCRIPTION, usage="driver [-h] [-V] COMMAND ...", epilog=_EPILOG)
    for title, commands in GROUPS.items():
        group = parser.add_argument_group(title)
        for name, summary in commands.items():
            group.add_argument(name, nargs="?", help=summary)
    return parser


def _plain(arguments: Sequence[str]) -> Sequence[str]:
    """A command line with aliases of commands, `help` and `version` replaced."""
    first, *rest = arguments or [""]
    if first in WORDS:
        return [*(rest[:1] if first == "help" else []), WORDS[first]]
    return [ALIASES[first], *rest] if first in ALIASES else arguments


def _near_option(word: str, parser: argparse.ArgumentParser) -> str:
    """`did you mean ...?` for an unknown option: a similar one of the same command, or one that it begins with."""
    if not word.startswith("-"):
        return ""
    name = word.partition("=")[0]
    options = [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001  (see above)
    begun = [option for option in options if name.startswith("--") and option.startswith(name)]
    if len(begun) == 1:
        return f"did you mean `{begun[0]}`?"
    is_letter = len(name.lstrip("-")) == 1  # such as make's -j
    if is_letter and (long := [option for option in options if option.startswith(f"--{name.lstrip('-')}")]):
        return f"did you mean {' or '.join(f'`{option}`' for option in long)}?"
    near = nearest(name.lstrip("-"), [option.lstrip("-") for option in options])  # equal dashes are no similarity
    return next((f"did you mean `{option}`?" for option in options if option.lstrip("-") == near), "")


def parse_command_line(arguments: Sequence[str]) -> tuple[str, argparse.Namespace]:
    """Read a command line.

    Args:
        arguments: the arguments, without the program's name.

    Returns:
        The name of the command, and its arguments; `command` has the words after `--` (see WITH_COMMAND).

    Raises:
        DriverError: USAGE for a wrong command line.
        SystemExit: after `--help` and `--version`.
    """
    arguments = _plain(_plain(arguments))
    if "" in itertools.takewhile(lambda word: word != "--", arguments):
        raise error(Code.USAGE, "an argument is empty", help="a variable of the shell may have no value")
    options = [*itertools.takewhile(lambda word: word.startswith("-"), arguments)]
    name = next(iter(arguments[len(options) :]), None)
    if name is not None and name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS) or did_you_mean(name, (*ALIASES, *WORDS))
        hint = hint or (f"write `{options[0]}` after the command" if options else "")
        raise error(Code.USAGE, f"unknown command `{name}`", help=hint or f"commands: {', '.join(COMMANDS)}")
    alone = name is None or not {"-h", "--help"}.isdisjoint(options)
    if not alone and (early := [option for option in options if option not in {"-V", "--version"}]):
        message = f"`{early[0]}` is before the command"
        raise error(Code.USAGE, message, help=f"write it after the command: driver {name} {early[0]}")
    parser = _overview() if alone else Parser(prog="driver")
    parser.add_argument(
        "-V", "--version", action="version", version=f"driver {__version__}", help="show the version and exit"
    )
    if name is None or alone:
        if unknown := parser.parse_known_args(options)[1]:
            hint = _near_option(unknown[0], parser)
            raise error(Code.USAGE, f"unrecognized arguments: {' '.join(unknown)}", help=hint or "see `driver --help`")
        parser.error("a command is missing")
    subparsers: Subparsers = parser.add_subparsers()
    load_command(name).add(subparsers)
    own, rest = with_command(name, arguments)
    args, unknown = parser.parse_known_args(own)
    if unknown and not any(word.startswith("-") for word in unknown):
        # argparse accepts DIR and FUNCTION only side by side: `asm DIR --archs 9.0 FUNCTION`.
        args, unknown = parser.parse_known_args(_side_by_side(own, unknown))
    if unknown:
        advice = "; write your own command after `--`" if name in WITH_COMMAND and "--" not in arguments else ""
        message = f"unrecognized arguments: {' '.join(unknown)}"
        # A letter such as -k is more likely an option of the user's command than one of ours.
        words = [word for word in unknown if word.startswith("--") or name not in WITH_COMMAND]
        hints = [_near_option(word, subparsers.choices[name]) for word in words]
        hint = next(filter(None, hints), "")
        raise error(Code.USAGE, message, help=f"{hint}{' ' if hint else ''}see `driver {name} --help`{advice}")
    args.command = rest
    return name, args


def run_command_line(arguments: Sequence[str], output: Output) -> int:
    """Run the command of a command line.

    Args:
        arguments: the arguments, without the program's name.
        output: where to print.

    Returns:
        The exit code.

    Raises:
        DriverError: USAGE for a wrong command line, and what the command raises.
        SystemExit: after `--help` and `--version`.
    """
    if {"_ARGCOMPLETE", "COMP_LINE", "COMP_POINT"}.issubset(os.environ):
        from py_driver.cli.completion import complete

        complete()
    name, args = parse_command_line(arguments)
    from py_driver.cli.variables import take_variables

    take_variables(name, args, output)
    output.annotates = getattr(args, "annotations", None) is not None
    return load_command(name).run(args, output)


@contextmanager
def aside() -> Iterator[None]:
    """Redirect the output of commands and their processes to stderr; stdout is for the result of this command."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
