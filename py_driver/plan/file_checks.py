"""Checks that the files in build.toml exist, belong to the project, and can be read."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.model import values
from py_driver.manifest.openmp import asks_for_openmp
from py_driver.manifest.paths import HEADERS, SOURCES, path_problem
from py_driver.matrix.backends import BUILT, owner_of
from py_driver.plan.compile_groups import compiles
from py_driver.plan.links import ADVICE
from py_driver.system.files import is_directory, is_file, is_lfs_pointer, is_readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.errors import Span
    from py_driver.manifest.model import Manifest, Text, Texts
    from py_driver.manifest.section import Findings
    from py_driver.plan.links import Links
    from py_driver.plan.present_files import PresentFiles

_PACKAGES = ("BUILD", "BUILD.bazel")


class FileChecker:
    """Checks the files of a project and collects errors.

    Args:
        links: the project's.
        present: the files that the project has.
        findings: gets FILE_MISSING, PATH_ESCAPES, FILE_KIND, DUPLICATE_FILE, FOREIGN_FILE and BAD_VALUE.

    Attributes:
        unusable: files of sections that are not built, and files that cannot be read.
    """

    def __init__(self, links: Links, present: PresentFiles, findings: Findings) -> None:
        self._directory = links.directory
        self._present = present
        self._links = links
        self._findings = findings
        self._note = findings.note
        self._needed = True
        self.unusable: set[str] = set()

    def _add(self, code: Code, message: str, span: Span, *, label: str = "", advice: str = "") -> None:
        """Collect an error; a note in a section that is not built."""
        if self._needed:
            self._findings.add(code, message, span, label=label, advice=advice)
        else:
            self._note(f"{message}; the section is not built", span, code)

    def check_section(
        self, title: str, files: Texts, directories: Texts, *, any_kind: bool = False, needed: bool = True
    ) -> None:
        """Check the files and the include directories of a section.

        Args:
            title: the section's header.
            files: sources and headers.
            directories: its include directories.
            any_kind: whether files may have any suffix, as in backends that are not built.
            needed: whether the section is built; otherwise an error becomes a note.
        """
        self._needed = needed
        seen: dict[str, Text] = {}
        for text in files:
            if text.value in seen:
                self._note(f"`{text.value}` is listed twice in {title}", text.span, Code.DUPLICATE_FILE)
            elif not self._is_inside(text) or not self._is_fit(text, any_kind=any_kind):
                self.unusable.add(text.value)
            seen.setdefault(text.value, text)
        for text in directories:
            if text.value == "." or not self._is_inside(text, kind="directory"):
                continue
            if not is_directory(self._directory / text.value):
                parent = text.value.rpartition("/")[0] or "."
                message, advice = f"`{text.value}` in `include` is not a directory", f"write `{parent}`, where it is"
                self._add(Code.FILE_KIND, message, text.span, advice=advice)
        self._needed = True

    def _is_inside(self, text: Text, *, kind: str = "file") -> bool:
        """Whether a path is well-formed, exists and stays in the project; collects the error if not.

        Args:
            text: the path.
            kind: what it names, `file` or `directory`.
        """
        path = text.value
        if problem := path_problem(path):
            label = self._present.meant(path)
            self._add(problem[0], f"the path `{path}` {problem[1]}", text.span, label=label)
            return False
        try:
            os.path.realpath(self._directory / path, strict=True)
        except FileNotFoundError:
            if (self._directory / path).is_symlink():
                target = os.readlink(self._directory / path)  # noqa: PTH115  (as the link has it)
                self._add(Code.FILE_MISSING, f"the symbolic link `{path}` leads nowhere, to `{target}`", text.span)
                return False
            label = self._present.suggestion(path) if kind == "file" else self._present.directory(path)
            self._add(Code.FILE_MISSING, f"there is no {kind} `{path}`", text.span, label=label)
            return False
        except OSError as failure:
            self._add(Code.FILE_KIND, f"cannot use `{path}`: {failure.strerror}", text.span)
            return False
        if wrong := self._links.problem(path):
            self._add(Code.PATH_ESCAPES, f"`{path}` {wrong}", text.span, advice=ADVICE)
            return False
        return True

    def _is_fit(self, text: Text, *, any_kind: bool) -> bool:
        """Whether a file can be read; collects the error if not."""
        path = text.value
        about = (self._directory / path).stat()
        if not stat.S_ISREG(about.st_mode):
            kind = "a directory" if stat.S_ISDIR(about.st_mode) else "not a regular file"
            inside = self._present.source(SOURCES, (), path) if stat.S_ISDIR(about.st_mode) else ""
            example = f", as `{inside}`" if inside.startswith(f"{path}/") else ""
            advice = f"list each file by its name{example}"
            self._add(Code.FILE_KIND, f"`{path}` is {kind}", text.span, advice=advice)
            return False
        if not any_kind and not path.endswith((*SOURCES, *HEADERS)):
            message = f"`{path}` is neither a source ({' '.join(SOURCES)}) nor a header; it is not compiled"
            self._note(message, text.span, Code.FILE_KIND)
        if not is_readable(self._directory / path):
            self._add(Code.FILE_KIND, f"cannot read `{path}`: it has no read permission", text.span)
            return False
        if is_lfs_pointer(self._directory / path, about.st_size):
            message = f"`{path}` is a Git LFS pointer to a file that was not fetched"
            self._add(Code.FILE_KIND, message, text.span, advice="fetch it with `git lfs pull`")
            return False
        return True

    def check_c(self, title: str, files: Texts, flags: Texts) -> None:
        """Collect an error for each C source in a part that uses OpenMP.

        Args:
            title: the part's name in messages.
            files: its files.
            flags: the flags of its C++ sources.
        """
        if asks_for_openmp(values(flags)):
            for text in files:
                if text.value.endswith(".c"):
                    message = f"`{text.value}` is C, and {title} uses OpenMP, which is available for C++ only"
                    advice = "list it in a section without `-fopenmp`, or make it C++"
                    self._add(Code.FILE_KIND, message, text.span, advice=advice)

    def check_languages(self, reason: str, files: Texts, backend: str = "cpu") -> None:
        """Collect an error for each CUDA or HIP source that no compiler for its language compiles.

        Args:
            reason: the reason, as the rest of a sentence.
            files: the files to check.
            backend: the backend that they are for.
        """
        for text in files:
            owner = owner_of(text.value)
            if owner and not text.value.endswith(BUILT[backend].sources):
                advice = f'list it in a [kernel.*] section for "{owner.family}"'
                message = f"`{text.value}` is {owner.language_of(text.value)}, but {reason}"
                self._add(Code.FILE_KIND, message, text.span, advice=advice)

    def check_binding(self, manifest: Manifest) -> None:
        """Collect a note for each CUDA or HIP source of the binding about the backends that compile it."""
        built = [backend for backend in manifest.built if compiles(manifest, backend)]
        for text in manifest.framework.src:
            owner = owner_of(text.value)
            if owner is None:
                continue
            able = [backend for backend in built if text.value.endswith(BUILT[backend].sources)]
            archs = (
                f"for the {'GPU architectures of all sections' if manifest.kernels else 'default GPU architectures'}"
            )
            what = (
                f"is compiled for {' and '.join(able)} only, {archs}"
                if able
                else "no backend of this project compiles it"
            )
            self._note(f"`{text.value}` is {owner.language_of(text.value)}, and {what}", text.span)

    def check_common(self, manifest: Manifest) -> None:
        """Collect a note for each source that two sections of a backend, or the binding and a section, list."""
        for backend in (backend for backend in manifest.built if backend in BUILT):
            seen = {text.value: f"[{manifest.framework.table}]" for text in manifest.framework.src}
            for kernel in manifest.sections(backend):
                for text in {source.value: source for source in kernel.src if source.value.endswith(SOURCES)}.values():
                    other = seen.setdefault(text.value, kernel.title)
                    if other != kernel.title:
                        message = f"{other} lists `{text.value}` too: it is compiled once, with the flags of both"
                        self._note(message, text.span, Code.DUPLICATE_FILE)

    def check_commas(self, backend: str, files: Texts, directories: Texts) -> None:
        """Collect an error for each path with a comma, at which a compiler would split it.

        Args:
            backend: the compiler's backend.
            files: the files of a section.
            directories: the include directories of the section.
        """
        known = BUILT[backend]
        sources = (text for text in files if text.value.endswith(known.sources))
        for text in (*sources, *directories) if known.splits_paths else ():
            if "," in text.value:
                message = f"the path `{text.value}` has a comma, at which {known.compiler} splits it"
                self._add(Code.BAD_VALUE, message, text.span, advice="rename it; other files may have commas")

    def check_case(self, manifest: Manifest) -> None:
        """Collect an error for each file whose path differs from an earlier one only by case."""
        seen: dict[str, str] = {}
        for text in (*manifest.framework.src, *(text for kernel in manifest.kernels for text in kernel.src)):
            first = seen.setdefault(text.value.casefold(), text.value)
            if first != text.value:
                message = f"`{text.value}` and `{first}` differ only by case: some file systems treat them as one file"
                self._note(message, text.span, Code.DUPLICATE_FILE)

    def check_packages(self, manifest: Manifest, python: Iterable[str]) -> None:
        """Collect an error for each BUILD file below the project's directory that would hide a file from Bazel.

        Args:
            manifest: the manifest, which lists sources and headers.
            python: the files of the Python package.
        """
        listed = (*manifest.framework.src, *(text for kernel in manifest.kernels for text in kernel.src))
        files = [(text.value, text.span) for text in listed if path_problem(text.value) is None]
        files = [(path, span) for path, span in files if is_file(self._directory / path)]
        folders: dict[str, Span] = {}
        for path, span in (*files, *((path, manifest.name.span) for path in python)):
            for slash in re.finditer("/", path):
                folders.setdefault(path[: slash.start()], span)
        for folder, span in sorted(folders.items()):
            for name in _PACKAGES:
                if is_file(self._directory / folder / name):
                    message = f"{folder}/{name} makes the folder a Bazel package, which a BUILD.bazel above cannot read"
                    self._note(message, span, Code.FOREIGN_FILE)
