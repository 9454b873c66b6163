"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.output import Output
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from py_driver.cli import ArgumentGroup, Parser
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.select import Words

CPUS: Final = ("x86_64", "aarch64")

MATRIX_VARIABLE: Final = "RULES_TORCH_KERNELS_MATRIX"
"""Environment variable that names a matrix of the user's own."""


def add_matrix(arguments: Parser | ArgumentGroup) -> None:
    """Add the option of all commands that read the matrix."""
    arguments.add_argument(
        "--matrix",
        metavar="FILE",
        type=Path,
        help="a TOML file with additional releases (see docs/toolchains.md), or with the CPUs of the default variants "
        f"(default: ${MATRIX_VARIABLE})",
    )


def add_repository(arguments: ArgumentGroup, what: str = "--published") -> None:
    """Add the options that name the repository of published variants.

    Args:
        arguments: the group.
        what: the option that reads it, for the help.
    """
    arguments.add_argument(
        "--repo-id", metavar="OWNER/NAME", default="", help=f"repository for {what} (default: from build.toml)"
    )
    arguments.add_argument(
        "--branch", metavar="NAME", default="", help=f"branch for {what} (default: from build.toml, or v<version>)"
    )


def check_repository(args: argparse.Namespace) -> None:
    """Check that only --published is combined with a repository.

    Raises:
        DriverError: USAGE.
    """
    if not args.published and (args.repo_id or args.branch):
        raise error(Code.USAGE, "--repo-id and --branch need --published", help="add --published")


def releases_of(args: argparse.Namespace) -> Releases:
    """The releases that a command uses: the driver's, and those of the user's matrix."""
    from py_driver.matrix.releases import Releases

    return Releases(matrix_of(args), Output().warn)


def matrix_of(args: argparse.Namespace) -> Path | None:
    """The user's matrix from a command line or the environment; None without either."""
    named = getattr(args, "matrix", None) or os.environ.get(MATRIX_VARIABLE)
    return Path(named) if named else None


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Add the project's directory, for commands that work on one project."""
    parser.add_argument(
        "directory",
        metavar="DIR",
        nargs="?",
        type=Path,
        default=Path(),
        help="directory of the project (default: .)",
    )


def add_directories(parser: Parser) -> None:
    """Add the projects' directories and their selection, for commands that accept several projects."""
    parser.add_argument(
        "directories",
        metavar="DIR",
        nargs="*",
        type=Path,
        default=[Path()],
        help="directory of a project, or a directory above projects (default: .)",
    )
    parser.group("select").add_argument(
        "--changed-since",
        metavar="REV",
        help="only projects with a file that differs from this git commit, e.g. origin/main",
    )


def add_project(parser: Parser, *, several: bool = False) -> None:
    """Add the arguments of commands that plan a project: its directory, and how strict to be.

    Args:
        parser: the parser of the command.
        several: whether it accepts several projects.
    """
    if several:
        add_directories(parser)
    else:
        add_directory(parser)
    select = parser.group("select")
    select.add_argument(
        "--strict-archs",
        action="store_true",
        help="fail if a GPU architecture requested by a section cannot be built (default: exclude it)",
    )
    add_matrix(select)


def add_variants(parser: Parser, default: str, *, several: bool = False) -> None:
    """Add the arguments of commands that work on variants of a project.

    Args:
        parser: the parser of the command.
        default: the variants without `--variant`, for the help.
        several: whether the command accepts several projects.
    """
    add_project(parser, several=several)
    select = parser.group("select")
    select.add_argument(
        "--variant",
        metavar="GLOB",
        action="extend",
        type=globs,
        default=[],
        help="select variants by identifier: 'torch213-*-{cpu,cu130}-*', or words of it in order, torch213-cu130; "
        f"repeatable (default: {default})",
    )
    add_words(select)


def add_words(select: ArgumentGroup) -> None:
    """Add the options that select variants by torch, backend and CPU."""
    select.add_argument(
        "--torch",
        metavar="M.N",
        action="extend",
        default=[],
        type=releases_listed,
        help="select the variants for a torch release, e.g. 2.13; repeatable, or a list with commas",
    )
    select.add_argument(
        "--backend",
        metavar="NAME",
        action="extend",
        default=[],
        type=listed,
        help="select the variants for a backend, e.g. cpu, cu130, or cuda for all CUDA releases; repeatable, or a list "
        "with commas",
    )
    select.add_argument(
        "--cpu",
        metavar="CPU",
        action="extend",
        default=[],
        type=cpus,
        help="select the variants for a CPU: x86_64, or aarch64 for Arm servers; repeatable, or a list with commas "
        "(default: the CPUs of --matrix, or of variants already built, else x86_64)",
    )


def add_format(parser: Parser, json: str) -> None:
    """Add the options for the form of the result, for commands whose errors have places in files.

    Args:
        parser: the parser of the command.
        json: the help of `--json`.
    """
    form = parser.group("report").add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=json)
    form.add_argument(
        "--annotations",
        choices=("github",),
        help="also print errors, warnings and notes to stdout as annotations of GitHub Actions",
    )


def page(text: str) -> Path:
    """The path of a page from the command line."""
    if Path(text).suffix != ".html":
        raise argparse.ArgumentTypeError(f"`{text}` does not end in .html")
    return Path(text)


def listed(text: str) -> list[str]:
    """The words of a list from the command line, separated by commas or blanks."""
    words = re.split(r"[,\s]+", text.strip(", \t\n"))
    if not words[0]:
        raise argparse.ArgumentTypeError(f"`{text}` is an empty list")
    return words


def globs(text: str) -> list[str]:
    """Globs of variants from the command line; commas within braces do not separate globs."""
    found = re.findall(r"(?:\{[^}]*\}+|[^,\s])+", text)
    if not found:
        raise argparse.ArgumentTypeError(f"`{text}` is an empty pattern")
    return found


def cpus(text: str) -> list[str]:
    """CPUs from the command line."""
    for word in listed(text):
        if word not in CPUS:
            hint = did_you_mean(word, CPUS)
            raise argparse.ArgumentTypeError(f"`{word}` is not one of {', '.join(CPUS)}{'; ' if hint else ''}{hint}")
    return listed(text)


def release(text: str) -> str:
    """A version of torch from the command line."""
    if not re.fullmatch(r"[0-9]{1,4}\.[0-9]{1,4}", text, re.ASCII):
        minor = re.match(r"[0-9]{1,4}\.[0-9]{1,4}(?=\.)", text, re.ASCII)
        raise argparse.ArgumentTypeError(f"`{text}` is not a version like {minor[0] if minor else '2.13'}")
    return text


def releases_listed(text: str) -> list[str]:
    """Versions of torch from the command line, separated by commas."""
    return [release(word) for word in listed(text)]


def words_of(args: argparse.Namespace, *, several: bool) -> Words:
    """The torch releases, backends and CPUs of a command line.

    Args:
        args: the command line.
        several: whether it names several projects.
    """
    from py_driver.matrix.select import Words

    return Words(torch=tuple(args.torch), backends=tuple(args.backend), cpus=tuple(args.cpu), in_any=several)
