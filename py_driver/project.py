"""A project directory: its build.toml, whether every file that it lists is fit to build, its Python files."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Code, DriverError, error
from py_driver.header_checks import check_includes
from py_driver.manifest.model import BUILT
from py_driver.manifest.paths import HEADERS, SOURCES, path_problem
from py_driver.manifest.reader import read
from py_driver.manifest.semantics import check
from py_driver.manifest.text import SIZE_LIMIT
from py_driver.plan import make_plan
from py_driver.spelling import did_you_mean
from py_driver.variants.matrix import read_matrix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from py_driver.errors import Span
    from py_driver.manifest.model import Manifest, Note, Text, Texts
    from py_driver.manifest.section import Findings
    from py_driver.plan import Plan
    from py_driver.variants.matrix import Matrix

MANIFEST = "build.toml"
"""The name of the manifest."""

_PACKAGES = ("BUILD", "BUILD.bazel")
_GENERATED = ("_ops.py", "metadata.json")
_SEEN_LIMIT = 2000


class Project(NamedTuple):
    """A project whose files have been checked.

    Attributes:
        directory: where it is.
        manifest: its build.toml.
        python_root: the directory of its Python package, relative to the project's.
        python: the files of the package, relative to the project's directory, sorted.
        notes: what is worth knowing and no error, in the order of build.toml.
    """

    directory: Path
    manifest: Manifest
    python_root: str
    python: tuple[str, ...]
    notes: tuple[Note, ...]


def load(directory: Path, matrix: Matrix) -> Project:
    """Read the project in a directory.

    Args:
        directory: as the user gave it; errors name files relative to the working directory as this does.
        matrix: the releases to build for.

    Raises:
        DriverError: NO_MANIFEST, PERMISSION, what keeps build.toml from being read, or all that is wrong with it and
            with the files: what `manifest.reader.read` and `manifest.semantics.check` collect, FILE_MISSING,
            PATH_ESCAPES, FILE_KIND, DUPLICATE_FILE, FOREIGN_FILE, UNLISTED_HEADER, TORCH_NOT_DECLARED, BAD_VALUE.
    """
    manifest, findings = read(read_manifest(directory), str(directory / MANIFEST))
    check(manifest, matrix, findings)
    checker = _Checker(directory, findings)
    framework = manifest.framework
    checker.check_section(f"[{framework.table}]", framework.src, framework.include)
    for kernel in manifest.kernels:
        compiled = kernel.backend.value in BUILT
        checker.check_section(kernel.title, kernel.src, kernel.include, any_kind=not compiled)
        if kernel.backend.value == "cpu":
            checker.forbid_cuda(f"{kernel.title} is for the backend cpu", kernel.src)
    checker.forbid_cuda("the binding is C++ only", framework.src)
    checker.check_case(manifest)
    python = checker.python_files(manifest) if findings.is_right(manifest.name.span) else ()
    checker.check_packages(manifest)
    check_includes(directory, manifest, findings)
    if diagnostics := findings.diagnostics():
        raise DriverError(diagnostics)
    return Project(
        directory=directory,
        manifest=manifest,
        python_root=manifest.python_root,
        python=python,
        notes=findings.notes(),
    )


def plan_directory(directory: Path, *, strict_archs: bool = False) -> Plan:
    """What is built of the project in a directory, for the driver's own matrix.

    Raises:
        DriverError: all that `load` and `make_plan` raise.
    """
    matrix = read_matrix()
    return make_plan(load(directory, matrix), matrix, strict_archs=strict_archs)


def read_manifest(directory: Path) -> bytes:
    """The bytes of a project's build.toml, or one more than are allowed.

    Raises:
        DriverError: NO_MANIFEST, PERMISSION.
    """
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

    def __init__(self, directory: Path, findings: Findings) -> None:
        self._directory = directory
        self._real = os.path.realpath(directory)
        self._add = findings.add

    def check_section(self, title: str, files: Texts, directories: Texts, *, any_kind: bool = False) -> None:
        """Check the files and the include directories of a section.

        Args:
            title: its header.
            files: sources and headers.
            directories: what it includes from.
            any_kind: whether files may have any suffix: those of backends that are not built.
        """
        seen: dict[str, Text] = {}
        for text in files:
            if text.value in seen:
                self._add(Code.DUPLICATE_FILE, f"`{text.value}` is listed twice in {title}", text.span)
            elif self._is_inside(text):
                self._check_file(text, any_kind=any_kind)
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

    def _check_file(self, text: Text, *, any_kind: bool) -> None:
        path = text.value
        if not stat.S_ISREG((self._directory / path).stat().st_mode):
            self._add(Code.FILE_KIND, f"`{path}` is not a regular file", text.span, advice="list each file by its name")
        elif not any_kind and not path.endswith((*SOURCES, *HEADERS)):
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

    def check_case(self, manifest: Manifest) -> None:
        """Collect an error for each file whose path differs from an earlier one only by case."""
        seen: dict[str, str] = {}
        for text in (*manifest.framework.src, *(text for kernel in manifest.kernels for text in kernel.src)):
            first = seen.setdefault(text.value.casefold(), text.value)
            if first != text.value:
                message = f"`{text.value}` and `{first}` differ only by case"
                advice = "some file systems take them for one file; rename one of them"
                self._add(Code.DUPLICATE_FILE, message, text.span, advice=advice)

    def python_files(self, manifest: Manifest) -> tuple[str, ...]:
        """The files of the Python package, relative to the project's directory, sorted."""
        root, span = manifest.python_root, manifest.name.span
        if problem := path_problem(root):
            self._add(problem[0], f"the path `{root}` of the Python package {problem[1]}", span)
            return ()
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
            if path_problem(text.value) is None and (self._directory / text.value).is_file():
                for slash in re.finditer("/", text.value):
                    folders.setdefault(text.value[: slash.start()], text.span)
        if path_problem(manifest.python_root) is None:
            root = self._directory / manifest.python_root
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
