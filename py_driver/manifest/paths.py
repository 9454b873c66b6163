"""Paths in build.toml: their valid forms, and the meaning of their suffixes."""

from __future__ import annotations

import re

from py_driver.errors import Code
from py_driver.matrix.backends import BUILT
from py_driver.matrix.facts import facts

OTHER_SOURCES = tuple(f".{extension}" for extension in facts("backends")["OTHER_LANGUAGES"])
"""Suffixes of files that are compiled as C, or as assembly with a preprocessor."""

CXX_SOURCES = tuple(f".{extension}" for extension in facts("backends")["CXX_EXTENSIONS"])
"""Suffixes of files that are compiled as C++ for every backend."""

SOURCES = tuple(
    sorted(
        {
            *OTHER_SOURCES,
            *CXX_SOURCES,
            *(suffix for backend in BUILT.values() for suffix in backend.sources),
        }
    )
)
"""Suffixes of files that are compiled."""

HEADERS = (".cuh", ".def", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".tcc", ".tpp", ".txx")
"""Suffixes of files that are included."""

PATH_LIMIT = 500
"""The maximum length of a path. File systems allow more, but not together with an output base."""

SIGNS = "_ . + , = @ ~ ^ ! -"
"""The characters of a plain name besides ASCII letters and digits; `-` must not be the first one."""

_PART = r"[A-Za-z0-9_.+,=@~^!][A-Za-z0-9_.+,=@~^!-]*"
_RULES = (
    (r"//|@", Code.BAD_VALUE, "is a Bazel label; name a file of the project"),
    (r"/|~|[A-Za-z]:", Code.PATH_ESCAPES, "is not relative to the project"),
    (r".*\\", Code.BAD_VALUE, "has a backslash; paths are written with `/`"),
    (r".*[*?\[\]{}]", Code.BAD_VALUE, "is a pattern; only `src` takes patterns, with `*`, `**`, `?` and `[...]`"),
    (r"(.*/)?\.\.(/|$)", Code.PATH_ESCAPES, "leads out of its directory with `..`"),
    (r"\./|.*/\.?(/|$)|\.$|$", Code.BAD_VALUE, "has an empty part or `.`; write the shortest form"),
)


def is_plain(part: str) -> bool:
    """Whether the name of a file or directory needs no quoting in Bazel's labels, command lines and shells."""
    return re.fullmatch(_PART, part) is not None and part not in {".", ".."}


def without_dots(path: str, *, directory: bool) -> str:
    """A relative path without `.` and empty parts, as CMake reads it: `csrc/a.cpp` for `./csrc//a.cpp`.

    Args:
        path: the path; an absolute one does not change.
        directory: whether it names a directory; a file's path with a slash at the end does not change.
    """
    if path.startswith("/") or (path.endswith("/") and not directory):
        return path
    return "/".join(part for part in path.split("/") if part not in {"", "."}) or "."


def path_problem(path: str) -> tuple[Code, str] | None:
    """The error in the form of a path, without access to the file system; None if it is valid.

    Returns:
        PATH_ESCAPES for an absolute path or one with `..`, else BAD_VALUE; and the rest of a sentence about the path.
    """
    if len(path) <= PATH_LIMIT and not path.startswith(("@", "~")) and all(map(is_plain, path.split("/"))):
        return None
    for pattern, code, problem in _RULES:
        if re.match(pattern, path):
            return code, problem
    if len(path) > PATH_LIMIT:
        return Code.BAD_VALUE, f"has {len(path)} characters; at most {PATH_LIMIT} are allowed"
    bad = next(part for part in path.split("/") if not is_plain(part))
    return Code.BAD_VALUE, f"has `{bad}`; a part of a path has ASCII letters, digits and `{SIGNS}`"
