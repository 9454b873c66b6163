"""The files that the sources of an extension module reach: files of the project, and libraries."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

from py_driver.manifest.model import TORCH
from py_driver.manifest.paths import HEADERS, path_problem
from py_driver.plan.includes import PYTHON_HEADERS, TORCH_FOLDERS, is_opaque, named, scan, use
from py_driver.plan.section_search import OPENMP
from py_driver.spelling import did_you_mean
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

PYBIND = "pybind"
"""The dependency of sources that include torch/extension.h, torch/python.h or pybind11: the rules' own headers."""

PYTHON = "python"
"""The dependency of sources that include Python.h."""

OF_PYTHON = frozenset({PYBIND, PYTHON})
"""The dependencies of sources that see Python or its stand-ins."""

BINDING = "PYBIND11_MODULE"
"""The macro that binds functions to a Python module."""

_PYTHON_API = ("Python.h", "structmember.h")
_EVERYTHING = "torch/torch.h"
"""A header that includes torch/extension.h if TORCH_API_INCLUDE_EXTENSION_H is defined, as in each extension."""

_OPENMP_HEADER = "omp.h"
_LIMIT = 8 * 1024 * 1024


class Reached(NamedTuple):
    """The reach of a source.

    Attributes:
        files: the files of the project that it includes, directly or not, sorted; without itself.
        depends: `torch`, `pybind`, `python`, `openmp`, sorted.
        binds: the file, of these or itself, that uses PYBIND11_MODULE; empty if there is none.
    """

    files: tuple[str, ...]
    depends: tuple[str, ...]
    binds: str


class _Edges(NamedTuple):
    """The direct includes of a file: files of the project, dependencies, and OpenMP's header.

    Attributes:
        targets: the included files of the project.
        depends: the dependencies that provide the included headers of toolchains.
        openmp: `openmp` if it includes that header, whether the compiler has OpenMP or not.
        binds: whether it uses PYBIND11_MODULE.
        opaque: whether its other includes cannot be determined.
    """

    targets: tuple[str, ...]
    depends: frozenset[str]
    openmp: frozenset[str]
    binds: bool
    opaque: bool


class ProjectTree:
    """The files of a project as compilers see them, each read once.

    Args:
        path_of: the path of a project's file.
        all_files: all files of the project, relative to it.
    """

    def __init__(self, path_of: Callable[[str], Path], all_files: Callable[[], Iterable[str]]) -> None:
        self._path_of = path_of
        self._all_files = all_files
        self._texts: dict[str, str] = {}
        self._exists: dict[str, bool] = {}
        self._known: dict[tuple[str, tuple[str, ...]], _Edges] = {}
        self._every: list[str] | None = None

    def exists(self, path: str) -> bool:
        """Whether the project has a regular file at a path."""
        if path not in self._exists:
            self._exists[path] = path_problem(path) is None and is_file(self._path_of(path))
        return self._exists[path]

    def text(self, path: str) -> str:
        """The text of a file; empty if it is too large to be a source."""
        if path not in self._texts:
            real = self._path_of(path)
            large = real.stat().st_size > _LIMIT
            self._texts[path] = "" if large else real.read_text(encoding="utf-8", errors="replace")
        return self._texts[path]

    def suggestion(self, path: str) -> str:
        """`did you mean ...?` for a file that the project does not have; empty without a similar file."""
        return did_you_mean(path, sorted(self._all_files()))

    def headers_below(self, folders: Sequence[str]) -> list[str]:
        """The headers below directories, sorted."""
        if self._every is None:
            self._every = sorted(path for path in self._all_files() if path.endswith(HEADERS))
        return [
            path
            for path in self._every
            if any(folder == "." or path.startswith(f"{folder}/") for folder in folders) and path_problem(path) is None
        ]

    def reached(self, source: str, include_dirs: Sequence[str], *, openmp: bool) -> Reached:
        """The reach of a source.

        An include refers to the first file in the compiler's search order, whether or not an `#if` hides it. A file
        whose includes cannot be determined reaches all visible headers.

        Args:
            source: the source, relative to the project.
            include_dirs: include directories of the project, in search order.
            openmp: whether the source's compiler can see OpenMP's header.
        """
        found: dict[str, None] = {source: None}
        depends: set[str] = set()
        binds = ""
        search = tuple(include_dirs)
        for path in _growing(found):
            edges = self._edges(path, search)
            binds = binds or (path if edges.binds else "")
            if edges.opaque:
                folders = [*include_dirs, posixpath.dirname(source) or "."]
                found.update(dict.fromkeys(self.headers_below(folders)))
            found.update(dict.fromkeys(edges.targets))
            depends |= edges.depends if openmp else edges.depends | edges.openmp
        del found[source]
        return Reached(files=tuple(sorted(found)), depends=tuple(sorted(depends)), binds=binds)

    def _edges(self, path: str, include_dirs: tuple[str, ...]) -> _Edges:
        """The direct includes of a file."""
        key = path, include_dirs
        if key not in self._known:
            text = self.text(path)
            targets, depends, openmp = dict[str, None](), set[str](), set[str]()
            for include in scan(text):
                target = self._target(path, include.path, include_dirs, quoted=include.quoted)
                if target is not None:
                    targets[target] = None
                elif include.path != _OPENMP_HEADER:
                    depends |= _depends(include.path)
                elif not include.with_openmp:
                    openmp.add(OPENMP)
            for include in named(text):
                target = self._target(path, include.path, include_dirs, quoted=include.quoted)
                if target is not None:
                    targets[target] = None
                else:
                    depends |= _depends(include.path)
            self._known[key] = _Edges(
                targets=tuple(targets),
                depends=frozenset(depends),
                openmp=frozenset(openmp),
                binds=BINDING in text and use(text, BINDING) is not None,
                opaque=is_opaque(text),
            )
        return self._known[key]

    def _target(self, path: str, included: str, include_dirs: Sequence[str], *, quoted: bool) -> str | None:
        folders = [*([posixpath.dirname(path)] if quoted else []), *include_dirs]
        paths = (posixpath.normpath(posixpath.join(folder, included)) for folder in folders)
        return next((candidate for candidate in paths if self.exists(candidate)), None)


def _depends(included: str) -> set[str]:
    """The dependencies that provide a header of a toolchain."""
    if included in _PYTHON_API:
        return {PYTHON}
    if included == _EVERYTHING or PYTHON_HEADERS.fullmatch(included):
        return {TORCH, PYBIND}
    return {TORCH} if included.startswith(TORCH_FOLDERS) else set()


def _growing(found: dict[str, None]) -> Iterator[str]:
    """The keys of a dictionary that grows during the iteration."""
    seen: set[str] = set()
    while waiting := [path for path in found if path not in seen]:
        for path in waiting:
            seen.add(path)
            yield path
