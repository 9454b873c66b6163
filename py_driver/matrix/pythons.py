"""The Pythons of modules: from the lock, or installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.errors import Code, error

if TYPE_CHECKING:
    from py_driver.matrix.matrix import Matrix

VERSION: Final = re.compile(r"3\.(0|[1-9][0-9]?)(t?)", re.ASCII)
"""A version of Python as `--python` names it: `3.13`, `3.13t` for the free-threaded one."""


class Python(NamedTuple):
    """A Python that a module is for.

    Attributes:
        version: `3.13`, or `3.13t` if it is free-threaded.
        key: its name in variants: the version, if it is locked; else also a digest of its headers.
    """

    version: str
    key: str

    @property
    def tag(self) -> str:
        """Its ABI in the tag of a wheel: `cp313`, `cp313t`."""
        return f"cp{self.version.replace('.', '')}"

    @property
    def wheel_tag(self) -> str:
        """Python and ABI in the tag of a wheel: `cp313-cp313`, `cp313-cp313t`."""
        return f"{self.tag.removesuffix('t')}-{self.tag}"

    def suffix(self, cpu: str) -> str:
        """The suffix of a library that this Python imports.

        Args:
            cpu: the CPU of the library.
        """
        return f".cpython-{self.tag.removeprefix('cp')}-{cpu}-linux-gnu.so"


def locked(matrix: Matrix, version: str) -> Python | None:
    """A Python of the lock; None if the lock does not have the version.

    Args:
        matrix: the matrix, which has the lock's versions.
        version: e.g. `3.13`.
    """
    return Python(version=version, key=version) if version in matrix.cpython else None


def all_locked(matrix: Matrix, torch: str) -> tuple[Python, ...]:
    """The Pythons of the lock with wheels of a torch release; all if the wheels are unknown.

    Args:
        matrix: the matrix, which has the lock's versions.
        torch: the release, as `2.13`.

    Raises:
        DriverError: UNSUPPORTED if there are none.
    """
    known = matrix.pythons_of(torch)
    found = tuple(Python(version, version) for version in matrix.cpython if not known or version in known)
    if not found:
        message = f"torch {torch} has wheels for Python {', '.join(known)}, and none of these is in the lock"
        raise error(Code.UNSUPPORTED, message, help="name an installed interpreter: `--python PATH`")
    return found


def check_torch(matrix: Matrix, torch: str, python: Python) -> None:
    """Check that a torch release has a wheel for a Python.

    Raises:
        DriverError: UNSUPPORTED if it does not.
    """
    known = matrix.pythons_of(torch)
    if known and python.version not in known:
        message = f"torch {torch} has no wheel for Python {python.version}"
        raise error(
            Code.UNSUPPORTED, message, help=f"it has wheels for {', '.join(known)}; name one of these with `--python`"
        )
