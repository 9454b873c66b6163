"""A project directory: its build.toml, whether every file that it lists is fit to build, its Python files."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.errors import Code, Diagnostic, DriverError, Span, error
from py_driver.manifest.paths import HEADERS, SOURCES, path_problem
from py_driver.manifest.reader import read
from py_driver.manifest.text import SIZE_LIMIT
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from py_driver.manifest.model import Manifest, Text, Texts

MANIFEST = "build.toml"
"""The name of the manifest."""

_PACKAGES = ("BUILD", "BUILD.bazel")
_GENERATED = ("_ops.py", "metadata.json")
_SEEN_LIMIT = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A project whose files have been checked.

    Attributes:
        directory: where it is.
        manifest: its build.toml.
        python_root: the directory of its Python package, relative to the project's.
        python: the files of the package, relative to the project's directory, sorted.
    """

    directory: Path
    manifest: Manifest
    python_root: str
    python: tuple[str, ...]


def load(directory: Path) -> Project:
    """Read the project in a directory.

    Args:
        directory: as the user gave it; errors name files relative to the working directory as this does.

    Raises:
        DriverError: NO_MANIFEST, PERMISSION, whatever `manifest.reader.read` raises, or all that is wrong with the
            files: FILE_MISSING, PATH_ESCAPES, FILE_KIND, DUPLICATE_FILE, FOREIGN_FILE, BAD_VALUE.
    """
    manifest = read(_read_manifest(directory), str(directory / MANIFEST))
    checker = _Checker(directory)
    sections = [("[torch]", manifest.framework.src, manifest.framework.include)]
    sections += [(f"[kernel.{one.name.value}]", one.src, one.include) for one in manifest.kernels]
    for title, files, directories in sections:
        checker.check_section(title, files, directories)
    for kernel in manifest.kernels:
        if kernel.backend == "cpu":
            checker.forbid_cuda(f"[kernel.{kernel.name.value}] is for the backend cpu", kernel.src)
    checker.forbid_cuda("the binding is C++ only", manifest.framework.src)
    root = f"torch-ext/{manifest.module}"
    python = checker.python_files(root, manifest)
    checker.check_packages(manifest)
    if checker.diagnostics:
        raise DriverError(sorted(checker.diagnostics, key=lambda d: (d.span.line, d.span.column) if d.span else (0, 0)))
    return Project(directory=directory, manifest=manifest, python_root=root, python=python)


def _read_manifest(directory: Path) -> bytes:
    path = directory / MANIFEST
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise error(Code.NO_MANIFEST, f"{path} is not a regular file")
        with path.open("rb") as file:
            return file.read(SIZE_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        advice = "name the directory of a kernel project, or start one: README.md shows a minimal build.toml"
        raise error(Code.NO_MANIFEST, f"there is no {path}", help=advice) from None
    except OSError as problem:
        raise error(Code.PERMISSION, f"cannot read {path}: {problem.strerror}") from None


class _Checker:
    """Looks at the files of a project and collects what is wrong; see `load`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._real = os.path.realpath(directory)
        self.diagnostics: list[Diagnostic] = []

    def _add(self, code: Code, message: str, span: Span | None = None, *, label: str = "", advice: str = "") -> None:
        self.diagnostics.append(Diagnostic(code=code, message=message, span=span, label=label, help=advice))

    def check_section(self, title: str, files: Texts, directories: Texts) -> None:
        """Check the files and the include directories of a section."""
        seen: dict[str, Text] = {}
        for text in files:
            if text.value in seen:
                self._add(Code.DUPLICATE_FILE, f"`{text.value}` is listed twice in {title}", text.span)
            elif self._is_inside(text):
                self._check_file(text)
            seen.setdefault(text.value, text)
        for text in directories:
            if text.value != "." and self._is_inside(text) and not (self._directory / text.value).is_dir():
                self._add(Code.FILE_KIND, f"`{text.value}` in `include` is not a directory", text.span)

    def _is_inside(self, text: Text) -> bool:
        """Whether a path is well written, exists and stays in the project; collects the error if not."""
        path = text.value
        if problem := path_problem(path):
            self._add(problem[0], f"the path `{path}` {problem[1]}", text.span)
            return False
        try:
            real = os.path.realpath(self._directory / path, strict=True)
        except FileNotFoundError:
            label = did_you_mean(path, self._files())
            self._add(Code.FILE_MISSING, f"there is no file `{path}`", text.span, label=label)
            return False
        except OSError as failure:
            self._add(Code.FILE_KIND, f"cannot use `{path}`: {failure.strerror}", text.span)
            return False
        if not self._contains(real):
            self._add(Code.PATH_ESCAPES, f"`{path}` is a symbolic link out of the project, to {real}", text.span)
            return False
        return True

    def _contains(self, real: str) -> bool:
        return os.path.commonpath([self._real, real]) == self._real

    def _check_file(self, text: Text) -> None:
        path = text.value
        if not stat.S_ISREG((self._directory / path).stat().st_mode):
            self._add(Code.FILE_KIND, f"`{path}` is not a regular file", text.span, advice="list each file by its name")
        elif not path.endswith((*SOURCES, *HEADERS)):
            advice = f"sources: {' '.join(SOURCES)}; headers: {' '.join(HEADERS)}"
            self._add(Code.FILE_KIND, f"`{path}` is neither a source nor a header", text.span, advice=advice)

    def forbid_cuda(self, reason: str, files: Texts) -> None:
        """Collect an error for each CUDA source among files that no CUDA compiler sees."""
        for text in files:
            if text.value.endswith(".cu"):
                advice = 'list it in a [kernel.*] section for "cuda"'
                self._add(Code.FILE_KIND, f"`{text.value}` is CUDA, but {reason}", text.span, advice=advice)

    def _files(self) -> list[str]:
        """The sources and headers that exist, for suggestions; not all of them in a huge project."""
        found: list[str] = []
        for where, directories, files in os.walk(self._directory):
            directories[:] = sorted(name for name in directories if not name.startswith((".", "bazel-")))
            names = (os.path.relpath(os.path.join(where, name), self._directory) for name in sorted(files))  # noqa: PTH118  (no Path for each file)
            found += [name for name in names if name.endswith((*SOURCES, *HEADERS))]
            if len(found) > _SEEN_LIMIT:
                break
        return found

    def python_files(self, root: str, manifest: Manifest) -> tuple[str, ...]:
        """The files of the Python package, relative to the project's directory, sorted."""
        span = manifest.name.span
        if not (self._directory / root / "__init__.py").is_file():
            near = self._other_packages(root)
            label = f"there is {near}" if near else ""
            message = f"there is no {root}/__init__.py, the Python package of `{manifest.name.value}`"
            self._add(Code.FILE_MISSING, message, span, label=label)
            return ()
        suffixes = tuple(f".{extension}" for extension in manifest.framework.pyext)
        for name in _GENERATED:
            if name.endswith(suffixes) and (self._directory / root / name).exists():
                self._add(Code.FOREIGN_FILE, f"{root}/{name} is generated into each variant", span, advice="rename it")
        return tuple(sorted(path for path in self._walk(root, span) if path.endswith(suffixes)))

    def _other_packages(self, root: str) -> str:
        above = self._directory / Path(root).parent
        names = sorted(one.parent.name for one in above.glob("*/__init__.py")) if above.is_dir() else []
        return f"{Path(root).parent}/{names[0]}" if names else ""

    def _walk(self, root: str, span: Span) -> Iterator[str]:
        """The regular files below a directory; links, odd names and package boundaries are collected as errors."""
        waiting = [root]
        while waiting:
            parent = waiting.pop()
            for entry in sorted(os.scandir(self._directory / parent), key=lambda one: one.name):
                path = f"{parent}/{entry.name}"
                if entry.name == "__pycache__" or entry.name.startswith("."):
                    continue
                if entry.is_symlink() and not self._is_good_link(path, span):
                    continue
                if entry.is_dir():
                    waiting.append(path)
                elif entry.is_file():
                    if problem := path_problem(path):
                        self._add(problem[0], f"the path `{path}` {problem[1]}", span)
                    yield path

    def _is_good_link(self, path: str, span: Span) -> bool:
        """Whether a symbolic link leads to a file of the project."""
        try:
            real = os.path.realpath(self._directory / path, strict=True)
        except OSError as problem:
            self._add(Code.FILE_MISSING, f"the symbolic link `{path}` leads nowhere: {problem.strerror}", span)
            return False
        if not self._contains(real):
            self._add(Code.PATH_ESCAPES, f"`{path}` is a symbolic link out of the project, to {real}", span)
            return False
        if Path(real).is_dir():
            self._add(Code.FILE_KIND, f"`{path}` is a symbolic link to a directory; make it a directory", span)
            return False
        return True

    def check_packages(self, manifest: Manifest) -> None:
        """Collect an error for each BUILD file below the project's directory that would hide a file from Bazel."""
        texts: Iterable[Text] = (
            *manifest.framework.src,
            *(text for kernel in manifest.kernels for text in kernel.src),
        )
        folders: dict[str, Span] = {}
        for text in texts:
            if path_problem(text.value) is None:
                for parent in list(Path(text.value).parents)[:-1]:
                    folders.setdefault(str(parent), text.span)
        root = self._directory / "torch-ext" / manifest.module
        inside = (Path(where) for where, _, _ in os.walk(root))
        for folder in (root.parent, *inside):
            folders.setdefault(str(folder.relative_to(self._directory)), manifest.name.span)
        for folder_name, span in sorted(folders.items()):
            for name in _PACKAGES:
                if (self._directory / folder_name / name).is_file():
                    message = f"{folder_name}/{name} makes the folder a Bazel package of its own"
                    self._add(
                        Code.FOREIGN_FILE, message, span, advice="remove it; one BUILD.bazel stands beside build.toml"
                    )
