"""The Python package of a project: which of its files are shipped, and whether they can be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.ahead import AHEAD
from py_driver.manifest.paths import PATH_LIMIT, path_problem
from py_driver.manifest.section import unsafe_character
from py_driver.plan.links import ADVICE
from py_driver.plan.metadata import METADATA
from py_driver.spelling import nearest
from py_driver.system.files import is_lfs_pointer, is_readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from py_driver.manifest.model import Manifest
    from py_driver.manifest.section import Findings
    from py_driver.plan.links import Links

_BYTECODE = (".pyc", ".pyo")
_SHOWN = 5
_EXTENSION = ".so"
_INIT = "__init__.py"
_OPS = "_ops"
_GENERATED = (f"{_OPS}.py", METADATA)
_AHEAD = "_aot"
"""The directory with Triton's compiled code, and the name of the package that launches it."""


def package_files(manifest: Manifest, links: Links, findings: Findings) -> tuple[str, ...]:
    """The files of the Python package that are shipped, relative to the project's directory, sorted.

    Args:
        manifest: the project's build.toml, with a valid name.
        links: the project's.
        findings: gets FILE_MISSING, PATH_ESCAPES, FILE_KIND, FOREIGN_FILE and BAD_VALUE, at the project's name.
    """
    if path_problem(manifest.python_root):
        return ()  # the errors of edition 0 are collected where it is read
    return _Package(manifest, links, findings).files()


class _Package:
    """A check of a package; see `package_files`."""

    def __init__(self, manifest: Manifest, links: Links, findings: Findings) -> None:
        self._directory = links.directory
        self._links = links
        self._root = manifest.python_root
        self._name = manifest.name
        self._suffixes = tuple(f".{extension}" for extension in manifest.framework.extensions)
        self._findings = findings

    def _add(self, code: Code, message: str, *, label: str = "", advice: str = "") -> None:
        self._findings.add(code, message, self._name.span, label=label, advice=advice)

    def files(self) -> tuple[str, ...]:
        """The shipped files; empty if the package itself is invalid, which is collected."""
        if not self._has_init():
            return ()
        if problem := self._links.problem(self._root):
            self._add(Code.PATH_ESCAPES, f"`{self._root}` {problem}", advice=ADVICE)
            return ()
        shipped = tuple(sorted(self._walk()))
        self._check_modules(shipped)
        if ignored := sorted(self._links.ignored(self._root).intersection(shipped)):
            listed = ", ".join(f"`{path}`" for path in ignored[:_SHOWN])
            more = f" and {len(ignored) - _SHOWN} more" if len(ignored) > _SHOWN else ""
            self._findings.note(f"git ignores {listed}{more}, but they are shipped", self._name.span)
        return shipped

    def _check_modules(self, shipped: Iterable[str]) -> None:
        """Collect an error for a file that is imported instead of a generated file, or of its source."""
        sources = {path for path in shipped if path.endswith(".py")}
        is_ahead = (self._directory / AHEAD).is_file()
        for path in shipped:
            top, _, below = path.removeprefix(f"{self._root}/").partition("/")
            parent, _, name = path.rpartition("/")
            source = f"{parent}/{name.partition('.')[0]}.py"
            if top in _GENERATED or (top.removesuffix(".py") == _AHEAD and is_ahead):
                message = f"{self._root}/{top} is generated into each variant"
                self._add(Code.FOREIGN_FILE, message, advice="rename it")
            elif (top == _OPS and below) or (top.partition(".")[0] == _OPS and top.endswith(_EXTENSION)):
                message = f"{path} would be imported instead of {_OPS}.py, which is generated into each variant"
                self._add(Code.FOREIGN_FILE, message, advice="rename it")
            elif name.endswith(_EXTENSION) and source in sources:
                message = f"`{path}` is an extension module, which Python would import instead of `{source}`"
                self._add(Code.FILE_KIND, message, advice="rename one of them")

    def _has_init(self) -> bool:
        """Whether the package has an __init__.py of any kind; collects the error if not."""
        path = f"{self._root}/{_INIT}"
        try:
            (self._directory / path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            message = f"there is no {path}, the Python package of `{self._name.value}`"
            self._add(Code.FILE_MISSING, message, label=self._in_its_place())
            return False
        except OSError as problem:
            self._add(Code.FILE_KIND, f"cannot use `{path}`: {problem.strerror}")
            return False
        return True

    def _in_its_place(self) -> str:
        """A hint at a file that may be meant as the package's __init__.py, or at another package; empty without one."""
        package = self._directory / self._root
        try:
            if package.is_dir():
                init = nearest(_INIT, sorted(path.name for path in package.iterdir()))
                return f"there is {self._root}/{init}" if init else ""
            names = sorted(path.parent.name for path in package.parent.glob(f"*/{_INIT}"))
        except OSError:
            return ""
        near = nearest(package.name, names) or next(iter(names), "")
        return f"there is {Path(self._root).parent}/{near}" if near else ""

    def _walk(self) -> Iterator[str]:
        """The shipped files below the package; errors are collected for files that cannot be shipped."""
        is_linked = not self._links.is_plain(self._root)
        waiting = [self._root]
        while waiting:
            parent = waiting.pop()
            try:
                entries = sorted(os.scandir(self._directory / parent), key=lambda entry: entry.name)
            except OSError as problem:
                self._add(Code.FILE_KIND, f"cannot look into `{parent}`: {problem.strerror}")
                continue
            for entry in entries:
                path = f"{parent}/{entry.name}"
                if entry.name == "__pycache__" or entry.name.startswith("."):
                    continue
                if entry.is_symlink() and self._is_bad_link(path):
                    continue
                if entry.is_dir():
                    waiting.append(path)
                elif path.endswith(self._suffixes) and self._is_fit(path, is_file=entry.is_file()):
                    wrong = self._links.problem(path) if is_linked or entry.is_symlink() else ""
                    if wrong:
                        self._add(Code.PATH_ESCAPES, f"`{path}` {wrong}", advice=ADVICE)
                    else:
                        yield path

    def _is_fit(self, path: str, *, is_file: bool) -> bool:
        """Whether a file can be shipped; collects the error if not."""
        if path.endswith(_BYTECODE):
            self._add(Code.FILE_KIND, f"`{path}` is compiled Python, which runs without its source; ship the source")
        elif problem := _name_problem(path):
            self._add(Code.BAD_VALUE, f"the path `{path}` {problem}")
        elif not is_file:
            self._add(Code.FILE_KIND, f"`{path}` is not a regular file")
        elif not is_readable(self._directory / path):
            self._add(Code.FILE_KIND, f"cannot read `{path}`: it has no read permission")
        elif is_lfs_pointer(self._directory / path, (self._directory / path).stat().st_size):
            message = f"`{path}` is a Git LFS pointer to a file that was not fetched"
            self._add(Code.FILE_KIND, message, advice="fetch it with `git lfs pull`")
        else:
            return True
        return False

    def _is_bad_link(self, path: str) -> bool:
        """Whether a symbolic link prevents shipping; collects the error if so."""
        try:
            real = os.path.realpath(self._directory / path, strict=True)
        except OSError as problem:
            if path.endswith(self._suffixes):
                self._add(Code.FILE_MISSING, f"the symbolic link `{path}` leads nowhere: {problem.strerror}")
            return True
        folder = Path(real).is_dir()
        if not folder and not path.endswith(self._suffixes):
            return True
        if folder and not self._links.problem(path):
            self._add(Code.FILE_KIND, f"`{path}` is a symbolic link to a directory; make it a directory")
        elif folder:
            self._add(Code.PATH_ESCAPES, f"`{path}` {self._links.problem(path)}", advice=ADVICE)
        return folder


def _name_problem(path: str) -> str:
    """The reason why a path cannot be shipped, as the rest of a sentence about it; empty if it can."""
    if character := unsafe_character(path):
        return f"has the character {character}, which is invisible or not text; rename the file"
    if "\\" in path:
        return "has a backslash, which other systems treat as `/`; rename the file"
    if len(path) > PATH_LIMIT:
        return f"has {len(path)} characters; at most {PATH_LIMIT} are allowed"
    return ""
