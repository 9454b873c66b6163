"""A setup.py in the form of `load_inline`: its build reads no other file, so one recording serves all edits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from py_driver.system.files import reading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.recording.git_copy import Entry

SCRIPT: Final = "setup.py"
"""The file that is checked."""

_MODULES: Final = frozenset({"setuptools", "torch.utils.cpp_extension"})
_CLASSES: Final = frozenset({"CppExtension", "CUDAExtension"})
_KEYWORDS: Final = frozenset({"cmdclass", "ext_modules", "name", "packages", "py_modules", "version"})
_READ: Final = (".cfg", ".in", ".md", ".rst", ".toml", ".txt", ".py", ".egg-info")
"""The suffixes of files that setuptools may read by itself."""

_EXTENSIONS: Final = "ext_modules"
"""The keyword without which setuptools looks for packages and modules by itself."""

_PYTHON: Final = frozenset({"packages", "py_modules"})
"""The keywords that put files of the project into its wheel."""

_LICENSES: Final = ("authors", "copying", "licence", "license", "notice")
"""The prefixes of files that setuptools puts into a wheel."""

_RESPONSE: Final = ("@", "--options-file", "-optf")
"""The prefixes of options that name a file with further options."""


def reads_itself_alone(entries: Iterable[Entry]) -> bool:
    """Whether the build of a project reads only its setup.py, and of all other files only their names.

    This holds if setup.py calls `setup` only with texts, lists of texts, and torch's classes, as
    `rules_torch_kernels.inline_project` writes it, and if there is no file that setuptools reads by itself.

    Args:
        entries: the files of the project.

    Raises:
        DriverError: PERMISSION if setup.py cannot be read.
    """
    found = {entry.path: entry for entry in entries}
    script = found.get(SCRIPT)
    if script is None or script.link:
        return False
    if any(path != SCRIPT and "/" not in path and path.lower().endswith(_READ) for path in found):
        return False
    if any(path.lower().startswith(_LICENSES) for path in found):
        return False
    with reading(script.source):
        text = script.source.read_bytes()
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    *imports, last = body or [ast.Pass()]
    return all(map(_is_known_import, imports)) and isinstance(last, ast.Expr) and _is_setup(last.value)


def _is_known_import(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.ImportFrom) or statement.module not in _MODULES or statement.level:
        return False
    return all(alias.asname is None for alias in statement.names)


def _is_setup(call: ast.expr) -> bool:
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "setup"):
        return False
    names = {keyword.arg for keyword in call.keywords}
    if call.args or not {_EXTENSIONS} <= names <= _KEYWORDS:
        return False
    return all(
        _is_empty(keyword.value) if keyword.arg in _PYTHON else _is_plain(keyword.value) for keyword in call.keywords
    )


def _is_empty(value: ast.expr) -> bool:
    return isinstance(value, ast.List) and not value.elts


def _is_plain(value: ast.expr) -> bool:
    """Whether a value consists of texts, or is a module made by torch's classes, or `BuildExtension`."""
    if isinstance(value, ast.Call):
        known = isinstance(value.func, ast.Name) and value.func.id in _CLASSES
        return known and all(map(_is_plain, [*value.args, *(keyword.value for keyword in value.keywords)]))
    if isinstance(value, ast.Dict):
        return all(key is not None and _is_plain(key) for key in value.keys) and all(map(_is_plain, value.values))
    if isinstance(value, ast.List):
        return all(map(_is_plain, value.elts))
    if isinstance(value, ast.Constant):
        return not str(value.value).startswith(_RESPONSE)
    return isinstance(value, ast.Name) and value.id == "BuildExtension"
