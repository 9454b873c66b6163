"""The build system of a project: [build-system] of its pyproject.toml, as pip reads it."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.errors import Code, Diagnostic, DriverError, Span, error
from py_driver.system.files import is_file, reading

if TYPE_CHECKING:
    from pathlib import Path

LEGACY: Final = "setuptools.build_meta:__legacy__"
"""The backend of a project that names none (PEP 517)."""

PYPROJECT: Final = "pyproject.toml"
SETUP: Final = "setup.py"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildSystem:
    """The build system of a project.

    Attributes:
        requires: the build requirements, as written.
        backend: the backend's module and object.
        backend_path: directories of the project with the backend.
    """

    requires: tuple[str, ...] = ()
    backend: str = LEGACY
    backend_path: tuple[str, ...] = ()


def read_build_system(directory: Path) -> BuildSystem:
    """Read the build system of a project.

    Args:
        directory: the directory of the project.

    Raises:
        DriverError: NO_MANIFEST if it has neither pyproject.toml nor setup.py; TOML_SYNTAX; WRONG_TYPE; MISSING_KEY;
            PATH_ESCAPES if the backend is outside of the project.
    """
    path = directory / PYPROJECT
    if not is_file(path):
        if is_file(directory / SETUP) or is_file(directory / "setup.cfg"):
            return BuildSystem()
        advice = "name the directory of a project that pip can build"
        raise error(Code.NO_MANIFEST, f"{directory} has neither setup.py nor pyproject.toml", help=advice)
    with reading(path):
        text = path.read_bytes().decode("utf-8", errors="replace")
    try:
        table: dict[str, Any] = tomli.loads(text)
    except tomli.TOMLDecodeError as wrong:
        span = Span(str(path), wrong.lineno, wrong.colno, text=text.split("\n")[wrong.lineno - 1])
        raise DriverError([Diagnostic(Code.TOML_SYNTAX, wrong.msg, span)]) from None
    system = table.get("build-system")
    if system is None:
        return BuildSystem()
    if not isinstance(system, dict):
        raise _wrong(path, "`build-system` is not a table")
    if "requires" not in system:
        message = f"[build-system] of {path} has no `requires`"
        raise error(Code.MISSING_KEY, message, help='add `requires = ["setuptools"]`')
    places = _texts(path, system, "backend-path")
    for location in places:
        inner = posixpath.normpath(location)
        if inner.startswith(("../", "/")) or inner == "..":
            advice = "the directories of `backend-path` belong to the project (PEP 517)"
            raise error(Code.PATH_ESCAPES, f"`backend-path` of {path} leads out: `{location}`", help=advice)
    backend = system.get("build-backend", LEGACY)
    if not isinstance(backend, str) or not backend:
        raise _wrong(path, "`build-backend` is not a string")
    return BuildSystem(requires=_texts(path, system, "requires"), backend=backend, backend_path=places)


def _texts(path: Path, table: dict[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise _wrong(path, f"`{key}` is not a list of strings")
    return tuple(value)


def _wrong(path: Path, message: str) -> DriverError:
    return error(Code.WRONG_TYPE, f"{message} in {path}", help="write [build-system] as in PEP 518")
