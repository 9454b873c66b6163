"""`driver test`: builds the variant for this machine, and runs the project's tests with it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.bindings import add_binding, pythons_of_build_toml
from py_driver.cli.further import add_further, check_no_further
from py_driver.cli.run import (
    FURTHER,
    add_local,
    add_under,
    check_project,
    local_archs,
    local_choices,
    machine_of,
    ran,
)
from py_driver.errors import Code, error
from py_driver.plan.projects import is_extension
from py_driver.publishing.card_files import TESTS
from py_driver.spelling import near_path
from py_driver.system.files import is_directory, is_file

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output

_SETTINGS = (
    ("pytest.toml", ""),
    (".pytest.toml", ""),
    ("pytest.ini", ""),
    (".pytest.ini", ""),
    ("pyproject.toml", "[tool.pytest"),
    ("tox.ini", "[pytest]"),
    ("setup.cfg", "[tool:pytest]"),
)
"""Files with settings for pytest, each with the text that marks them, in pytest's order.

Source: pytest's reference, "Configuration file formats".
"""


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(
        subparsers,
        "test",
        "relu -- -k float16 -x",
        "relu --under memcheck -- relu/tests/test_relu.py",
        more="ARGS go to pytest.",
    )
    add_under(parser)
    add_local(parser)
    add_further(parser, FURTHER)
    add_binding(parser)
    parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [-- ARGS ...]"


def run(args: argparse.Namespace, output: Output) -> int:
    """Build and test; returns pytest's exit code.

    Raises:
        DriverError: FILE_MISSING if the project has no tests; see `dev_build`.
    """
    if is_extension(args.directory):
        from py_driver.cli import extension

        check_no_further(args, args.directory)
        return extension.test(
            args, output, extension.Local(lambda: machine_of(args), local_choices(args), local_archs(args))
        )
    pythons_of_build_toml(args)
    check_project(args.directory)
    tests = args.directory / TESTS
    if not tests.is_dir():
        advice = "write tests/test_NAME.py, as `driver init` does, or run another command with `driver run`"
        raise error(Code.FILE_MISSING, f"{tests} is missing", help=near_path(tests) or advice)
    project = args.directory
    # Settings and conftest.py files above the project belong to other projects.
    above = [f"--rootdir={project}", f"--confcutdir={project}", "-c", _settings(project)]
    named = [word for before, word in itertools.pairwise(["", *args.command]) if not _takes_value(before)]
    words = [*([] if any(_is_within(word, tests) for word in named) else [str(tests.absolute())]), *args.command]
    return ran(args, ["python", "-m", "pytest", "-p", "no:cacheprovider", *above, *words], output)


def _takes_value(word: str) -> bool:
    """Whether the word after an option of pytest may be its value; most long options do not show it."""
    return (word.startswith("--") and "=" not in word) or word in {"-W", "-c", "-k", "-m", "-n", "-o", "-p", "-r"}


def _is_within(word: str, tests: Path) -> bool:
    """Whether a word of pytest's command line names tests of the project: a directory, a file, or a test in a file."""
    path = Path(word.partition("::")[0])
    return (is_file(path) or is_directory(path)) and path.resolve().is_relative_to(tests.resolve())


def _settings(directory: Path) -> str:
    """The file with the project's settings for pytest, found as pytest finds it; `os.devnull` if there is none."""
    for name, sign in _SETTINGS:
        path = directory / name
        if path.is_file() and sign in path.read_text(encoding="utf-8", errors="replace"):
            return str(path)
    return os.devnull
