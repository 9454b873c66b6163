"""Options for projects with a setup.py: how modules are bound, and for which Pythons."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.cli.arguments import listed
from py_driver.errors import Code, error

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from py_driver.cli import Parser
    from py_driver.extensions.binding import Bindings
    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.matrix import Matrix
    from py_driver.matrix.pythons import Python

PYBIND: Final = "pybind"
"""The choice of `--binding` for pybind11."""

EVERY: Final = "every locked Python that the torch release has wheels for"
"""The choice of `all_pythons`, for the help."""

OWN: Final = (
    "the Python that runs the driver if it is locked and the torch release has wheels for it, "
    "else the first such Python"
)
"""The choice of `own_python`, for the help."""


def add_binding(parser: Parser) -> None:
    """Add the option for the binding of a setup.py's modules."""
    parser.group("compile").add_argument(
        "--binding",
        choices=(PYBIND, "library"),
        default="",
        help="with a setup.py: bind modules by pybind11, once for each Python, or on torch::Library, once for all "
        "(default: torch::Library, unless the sources use Python objects); with a build.toml, `pybind` is for wheels "
        "of a PYBIND11_MODULE",
    )


def add_bindings(parser: Parser, default: str) -> None:
    """Add the options for the binding of a setup.py's modules, and for the Pythons.

    Args:
        parser: the parser of the command.
        default: the Pythons without `--python`, for the help.
    """
    add_binding(parser)
    parser.group("select").add_argument(
        "--python",
        metavar="M.N|PATH",
        action="extend",
        type=lambda text: [text] if "/" in text else listed(text),
        default=[],
        help="build modules that are bound by pybind11 for this Python, e.g. 3.13, or for this interpreter; "
        f"repeatable (default: {default})",
    )


def check_no_bindings(args: argparse.Namespace) -> None:
    """Reject these options for a project with a build.toml and a command that makes no wheels of it.

    Raises:
        DriverError: USAGE.
    """
    if args.binding == PYBIND:
        message = (
            "`--binding pybind`: the Hub needs one library for every Python (abi3), and pybind11 makes one for each"
        )
        advice = "make wheels: `driver wheel --binding pybind`; or register ops, see docs/build-toml.md"
        raise error(Code.USAGE, message, help=advice)
    pythons_of_build_toml(args)


def pythons_of_build_toml(args: argparse.Namespace) -> bool:
    """Whether a project with a build.toml is to be bound by pybind11, once for each Python.

    Raises:
        DriverError: USAGE for options that have no meaning with a build.toml.
    """
    if args.binding == PYBIND:
        return True
    option = "--binding library" if args.binding else "--python" if getattr(args, "python", None) else ""
    if option:
        message = f"`{option}` is for a project with a setup.py: a build.toml makes one library for every Python"
        advice = "leave it out" if args.binding else f"leave it out, or add `--binding {PYBIND}` for wheels"
        raise error(Code.USAGE, message, help=advice)
    return False


def bindings_of(
    args: argparse.Namespace, matrix: Matrix, default: Callable[[Matrix, str], tuple[Python, ...]]
) -> Bindings:
    """The binding of modules according to a command line.

    Args:
        args: the command line.
        matrix: the releases to build for.
        default: the Pythons for a torch release without `--python`.
    """
    return named_bindings(args.binding, getattr(args, "python", []), matrix, default)


def named_bindings(
    way: str, words: Sequence[str], matrix: Matrix, default: Callable[[Matrix, str], tuple[Python, ...]]
) -> Bindings:
    """The binding of modules.

    Args:
        way: see `Bindings.way`.
        words: Pythons as in `--python`.
        matrix: the releases to build for.
        default: the Pythons for a torch release if `words` is empty.
    """
    from py_driver.extensions.binding import Bindings

    def pythons(configuration: Configuration) -> tuple[Python, ...]:
        chosen = named_pythons(words, matrix) if words else default(matrix, configuration.torch or "")
        if installed := [python for python in chosen if python.key != python.version]:
            _check_cpu(configuration, matrix, installed[0])
        return chosen

    return Bindings(way, pythons)


def all_pythons(matrix: Matrix, torch: str) -> tuple[Python, ...]:
    """The locked Pythons that a torch release has wheels for.

    Raises:
        DriverError: UNSUPPORTED if it has none.
    """
    from py_driver.matrix.pythons import all_locked

    return all_locked(matrix, torch)


def own_python(matrix: Matrix, torch: str) -> tuple[Python, ...]:
    """The Python that runs the driver if it is locked for the torch release, else the first locked one.

    Raises:
        DriverError: UNSUPPORTED if there is none.
    """
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = all_pythons(matrix, torch)
    return tuple(python for python in found if python.version == own) or found[:1]


def named_pythons(words: Sequence[str], matrix: Matrix) -> tuple[Python, ...]:
    """The Pythons of a command line.

    Args:
        words: Pythons as in `--python`.
        matrix: the releases, with the locked versions.

    Raises:
        DriverError: UNSUPPORTED for a version that is neither locked nor installed; USAGE for two Pythons with the same
            ABI; what
            `installed_python` raises.
    """
    pythons = tuple(dict.fromkeys(_python(word, matrix) for word in words))
    tags = [python.tag for python in pythons]
    if twice := next((tag for tag in tags if tags.count(tag) > 1), ""):
        raise error(Code.USAGE, f"`--python` names two Pythons with the ABI {twice}", help="name one of them")
    return pythons


def _python(word: str, matrix: Matrix) -> Python:
    """The Python for a word of the command line."""
    from py_driver.matrix.installed_python import find_interpreter, installed_python
    from py_driver.matrix.pythons import VERSION, locked

    if not VERSION.fullmatch(word):
        return installed_python(Path(word))
    if (python := locked(matrix, word)) is not None:
        return python
    if (interpreter := find_interpreter(word)) is not None:
        return installed_python(interpreter)
    message = f"Python {word} is neither in the lock ({', '.join(matrix.cpython)}) nor on PATH"
    raise error(Code.UNSUPPORTED, message, help="install it with its headers, and name it: `--python PATH`")


def _check_cpu(configuration: Configuration, matrix: Matrix, python: Python) -> None:
    """Check that an installed Python is for the CPU of a variant: only locked Pythons are for all CPUs.

    Raises:
        DriverError: UNSUPPORTED if it is not.
    """
    from py_driver.system.machine import machine_cpu

    if configuration.cpu not in (None, machine_cpu()):
        here = f"the headers of Python {python.version} are for this machine's CPU"
        message = f"{here}, and the variant is for {configuration.cpu}"
        raise error(Code.UNSUPPORTED, message, help=f"choose from the lock: {', '.join(matrix.cpython)}")
