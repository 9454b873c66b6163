"""A project directory: its build.toml, its checked files, its Python package."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.manifest.ahead import AHEAD
from py_driver.manifest.model import TORCH
from py_driver.manifest.reader import read
from py_driver.manifest.text import SIZE_LIMIT, check_size
from py_driver.matrix.backends import BUILT
from py_driver.plan.checks import check
from py_driver.plan.cpus import note_cpus
from py_driver.plan.file_checks import FileChecker
from py_driver.plan.header_checks import check_includes
from py_driver.plan.links import Links
from py_driver.plan.op_names import check_op_names
from py_driver.plan.package_files import package_files
from py_driver.plan.patterns import with_files
from py_driver.plan.present_files import PresentFiles
from py_driver.spelling import nearest
from py_driver.system.files import is_directory, is_file, looking_twice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from py_driver.errors import Note
    from py_driver.manifest.model import Manifest
    from py_driver.matrix.releases import Releases
    from py_driver.plan.ahead import TritonTarget
    from py_driver.plan.header_checks import Reach

MANIFEST = "build.toml"
"""The name of the manifest."""

_SUFFIXES = (".toml", ".tml", ".tolm", ".txt")
"""Suffixes of files that may be meant as the manifest, in lower case."""


class Project(NamedTuple):
    """A project whose files have been checked.

    Attributes:
        directory: its directory.
        manifest: its build.toml.
        python_root: the directory of its Python package, relative to the project's.
        python: the files of the package, relative to the project's directory, sorted.
        reach: the reach of the compiled bindings and sections, by the names of their targets.
        notes: the notes, in the order of build.toml.
        triton: Triton's ahead-of-time compiles, by backend.
    """

    directory: Path
    manifest: Manifest
    python_root: str
    python: tuple[str, ...]
    reach: Mapping[str, Reach]
    notes: tuple[Note, ...]
    triton: tuple[TritonTarget, ...] = ()

    @property
    def doubts(self) -> list[Diagnostic]:
        """The notes on probable mistakes that upstream's builder accepts, as errors."""
        return [Diagnostic(code=note.code, message=note.message, span=note.span) for note in self.notes if note.code]


def load(directory: Path, releases: Releases, *, pybind: bool = False) -> Project:
    """Read the project in a directory.

    Args:
        directory: the user's path; errors name files relative to the working directory in the same way.
        releases: the releases to build for.
        pybind: whether pybind11 binds it, for one Python each; see `py_driver.plan.for_pythons`.

    Raises:
        DriverError: NO_MANIFEST, PERMISSION, an error that prevents reading build.toml, or all errors of it and of the
            files: those of `manifest.reader.read` and `manifest.semantics.check`, FILE_MISSING, PATH_ESCAPES,
            FILE_KIND, DUPLICATE_FILE, FOREIGN_FILE, UNLISTED_HEADER, TORCH_NOT_DECLARED, OP_REGISTRATION, BAD_VALUE.
    """
    with looking_twice():
        return _load(directory, releases, pybind=pybind)


def _load(directory: Path, releases: Releases, *, pybind: bool) -> Project:
    """See `load`."""
    libraries = tuple(releases.matrix.libraries)
    manifest, findings = read(read_manifest(directory), str(directory / MANIFEST), libraries)
    manifest = with_files(directory, manifest, findings)
    present = PresentFiles(directory)
    check(manifest, releases, present, findings)
    links = Links(directory)
    checker = FileChecker(links, present, findings)
    framework = manifest.framework
    checker.check_section(f"[{framework.table}]", framework.src, framework.include)
    for kernel in manifest.kernels:
        compiled = kernel.backend.value in BUILT
        needed = kernel.backend.value in manifest.built and not framework.noarch
        checker.check_section(kernel.title, kernel.src, kernel.include, any_kind=not compiled, needed=needed)
        if compiled and needed:
            reason = f"{kernel.title} is for the backend {kernel.backend.value}"
            checker.check_languages(reason, kernel.src, kernel.backend.value)
            checker.check_c(kernel.title, kernel.src, kernel.cxx_flags)
            checker.check_commas(kernel.backend.value, kernel.src, kernel.include)
    checker.check_c(f"[{framework.table}]", framework.src, framework.cxx_flags)
    checker.check_binding(manifest)
    checker.check_common(manifest)
    checker.check_case(manifest)
    named = findings.has(("general" if manifest.edition else TORCH, "name")) and findings.is_right(manifest.name.span)
    python = package_files(manifest, links, findings) if named else ()
    checker.check_packages(manifest, python)
    reach = check_includes(manifest, python, links, checker.unusable, findings, pybind=pybind)
    check_op_names(directory, python, findings)
    note_cpus(manifest, findings)
    if diagnostics := findings.diagnostics():
        raise DriverError(diagnostics)
    return Project(
        directory=directory,
        manifest=manifest,
        python_root=manifest.python_root,
        python=python,
        reach=reach,
        notes=findings.notes(),
        triton=_ahead(manifest, releases, python, links),
    )


def _ahead(manifest: Manifest, releases: Releases, python: tuple[str, ...], links: Links) -> tuple[TritonTarget, ...]:
    """Triton's ahead-of-time compiles, by backend; empty without an aot.toml.

    Raises:
        DriverError: see `triton_targets`.
    """
    if not is_file(links.directory / AHEAD):
        return ()
    from py_driver.plan.ahead import triton_targets  # noqa: PLC0415  (most projects need no parser of Python)

    return triton_targets(manifest, releases.matrix, python, links)


def read_manifest(directory: Path) -> bytes:
    """The bytes of a project's build.toml, at most one more than the limit.

    Raises:
        DriverError: NO_MANIFEST, PERMISSION; PATH_ESCAPES if it is a link to a file outside of the project; TOML_LIMIT
            if it is too large.
    """
    path = directory / MANIFEST
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            kind = "a directory" if stat.S_ISDIR(about.st_mode) else "not a regular file"
            raise error(Code.NO_MANIFEST, f"{path} is {kind}", help="it must be a TOML file")
        Links(directory).check(MANIFEST)
        check_size(about.st_size, str(path))
        with path.open("rb") as file:
            return file.read(SIZE_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise error(Code.NO_MANIFEST, f"there is no {path}", help=_in_its_place(directory)) from None
    except OSError as problem:
        code = Code.NO_MANIFEST if problem.errno == errno.ELOOP else Code.PERMISSION
        raise error(code, f"cannot read {path}: {problem.strerror}") from None


def _in_its_place(directory: Path) -> str:
    """The help if there is no build.toml: a hint at a similar file or directory, if there is one."""
    advice = "name the directory of a kernel project, or create one with `driver init`"
    if is_file(directory / "setup.py"):
        advice = "`driver check` lists the variants of a setup.py; `driver adopt` makes a build.toml of it"
    if (directory / MANIFEST).is_symlink():
        return f"{directory / MANIFEST} is a symbolic link that leads nowhere; correct it"
    if is_file(directory):
        return f"{directory} is a file; name its directory: `{directory.parent}`"
    above = next((parent for parent in directory.parents if (parent / MANIFEST).is_file()), None)
    if is_directory(directory) and above is not None:
        return f"name the directory that has it: `{above}`"
    if is_directory(directory):
        near = nearest(MANIFEST, sorted(name for name in _names(directory) if name.lower().endswith(_SUFFIXES)))
        return f"there is `{near}`: rename it to {MANIFEST}" if near else advice
    beside = (name for name in sorted(_names(directory.parent)) if (directory.parent / name / MANIFEST).is_file())
    near = nearest(directory.name, beside)
    return f"did you mean `{directory.parent / near}`?" if near else _of_the_index(directory.name) or advice


def _of_the_index(word: str) -> str:
    """The help for a release of the package index instead of a directory; empty for other words."""
    from py_driver.recording.requirement import looks_like_requirement  # noqa: PLC0415  (slow, for a failure alone)

    if not looks_like_requirement(word):
        return ""
    return "`driver wheel` and `driver adopt` take a release of the package index; other commands take a directory"


def _names(directory: Path) -> list[str]:
    """The names in a directory; empty if it cannot be read."""
    try:
        return os.listdir(directory)  # noqa: PTH208  (names alone)
    except OSError:
        return []
