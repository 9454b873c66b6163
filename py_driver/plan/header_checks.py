"""What the sources of a project tell before they are compiled: whether they will find all that they include."""

from __future__ import annotations

import posixpath
from contextlib import suppress
from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.locate import Source
from py_driver.manifest.model import TORCH, values
from py_driver.manifest.paths import HEADERS, path_problem
from py_driver.matrix.backends import BUILT
from py_driver.plan.includes import TORCH_FOLDERS, first_use, scan
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from py_driver.manifest.model import Manifest, Texts
    from py_driver.manifest.section import Findings
    from py_driver.matrix.backends.backend import Backend
    from py_driver.plan.includes import Include

_CUTLASS_FOLDERS = ("cutlass/", "cute/")
_SIZE_LIMIT = 4 * 1024 * 1024
_BINDS = ("REGISTER_EXTENSION", "PyInit_")
"""A macro of nvcc that has another value when that compiles in phases: rules/private/cuda.bzl."""


def check_includes(directory: Path, manifest: Manifest, findings: Findings) -> None:
    """Collect UNLISTED_HEADER, TORCH_NOT_DECLARED and PATH_ESCAPES for the sections that are compiled.

    An include that stands inside an `#if` gives a note instead: the compiler may never see it. Each file that nvcc sees
    and that uses the list of architectures gives one too.

    Args:
        directory: the project's.
        manifest: what it says.
        findings: gets the errors and notes.
    """
    compiled = [one for one in manifest.kernels if one.backend.value in manifest.built and one.backend.value in BUILT]
    framework = manifest.framework
    if framework.table != TORCH or not compiled:
        return
    files = _Files(directory)
    offered = {text.value for one in compiled for text in one.src if text.value.endswith(HEADERS)}
    binding = _Section(f"[{TORCH}]", framework.src, framework.include, offered, (TORCH,))
    kernels = [_Section(one.title, one.src, one.include, (), values(one.depends)) for one in compiled]
    for section in (binding, *kernels):
        for path in section.listed:
            _check_file(files, section, path, findings)
    for path, backend in dict.fromkeys(
        (path, BUILT[one.backend.value])
        for section, one in zip(kernels, compiled, strict=True)
        for path in _compiled(files, section, BUILT[one.backend.value])
    ):
        _check_arch_list(files, path, backend, findings)
    if framework.src and not any(word in files.text(text.value) for text in framework.src for word in _BINDS):
        message = "no file of `src` in [torch] has REGISTER_EXTENSION(TORCH_EXTENSION_NAME); Python cannot import it"
        findings.note(message, framework.src[0].span)


class _Section:
    """What decides which headers the files of a section find."""

    def __init__(
        self, title: str, src: Texts, include: Texts, offered: Iterable[str], depends: tuple[str, ...]
    ) -> None:
        self.title = title
        self.torch = TORCH in depends
        self.listed = [text.value for text in src]
        self.found = {*self.listed, *offered}
        self.include = [text.value for text in include]
        cutlass = any(one.startswith("cutlass") for one in depends)
        self.libraries = (*(TORCH_FOLDERS if self.torch else ()), *(_CUTLASS_FOLDERS if cutlass else ()))


class _Files:
    """The files of a project, each read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._texts: dict[str, str] = {}
        self._includes: dict[str, tuple[Include, ...]] = {}
        self._exists: dict[str, bool] = {}

    def text(self, path: str) -> str:
        """The text of a file; nothing if it cannot be read or is none of the project's."""
        if path not in self._texts:
            self._texts[path] = ""
            real = self._directory / path
            with suppress(OSError):
                if path_problem(path) is None and is_file(real) and real.stat().st_size <= _SIZE_LIMIT:
                    self._texts[path] = real.read_text(encoding="utf-8", errors="replace")
        return self._texts[path]

    def includes(self, path: str) -> tuple[Include, ...]:
        """What a file includes."""
        if path not in self._includes:
            self._includes[path] = scan(self.text(path))
        return self._includes[path]

    def exists(self, path: str) -> bool:
        """Whether the project has a regular file at a path."""
        if path not in self._exists:
            self._exists[path] = path_problem(path) is None and is_file(self._directory / path)
        return self._exists[path]

    def shown(self, path: str) -> str:
        """A path as the user knows it."""
        return str(self._directory / path)


def _check_file(files: _Files, section: _Section, path: str, findings: Findings) -> None:
    source = Source(files.shown(path), files.text(path))
    for include in files.includes(path):
        if (wrong := _problem(files, section, path, include)) is None:
            continue
        code, message, advice = wrong
        span = source.span(include.start, include.start + len(include.path))
        if not include.conditional:
            findings.add(code, message, span, advice=advice)
        elif code is not Code.TORCH_NOT_DECLARED:
            findings.note(f"{message}; where this `#if` holds, the compiler will not find it", span)


def _compiled(files: _Files, section: _Section, backend: Backend) -> list[str]:
    """The files that a compiler with a list of architectures sees: sources, and what they include of those listed."""
    found = [path for path in section.listed if backend.arch_list_macro and path.endswith(backend.sources)]
    for path in found:
        targets = (_target(files, section, path, include) for include in files.includes(path))
        found += [one for one in dict.fromkeys(targets) if one in section.found and one not in found]
    return found


def _check_arch_list(files: _Files, path: str, backend: Backend, findings: Findings) -> None:
    """Collect a note for the first use of the list of architectures in a file."""
    text, macro = files.text(path), backend.arch_list_macro
    if (start := first_use(text, macro)) is not None:
        span = Source(files.shown(path), text).span(start, start + len(macro))
        message = f"`{macro}` names all architectures that {backend.compiler} knows, not those of the section"
        findings.note(f"{message}; under `driver build --cuda-compile monolithic` it names the latter", span)


def _problem(files: _Files, section: _Section, path: str, include: Include) -> tuple[Code, str, str] | None:
    """What is wrong with an include of a file, if anything: which error, its message, and help."""
    if include.path.startswith("/"):
        message = f"`{include.path}` is included here by a path that is not relative to the project"
        return Code.PATH_ESCAPES, message, "include a copy in the project"
    target = _target(files, section, path, include)
    if target is not None:
        if target in section.found:
            return None
        message = f"`{target}` is included here, but `src` in {section.title} does not list it"
        return Code.UNLISTED_HEADER, message, f'add "{target}" to `src` in {section.title}'
    if include.path.startswith(TORCH_FOLDERS) and not section.torch:
        message = f"a torch header is included here, but `depends` in {section.title} does not have `torch`"
        advice = 'write depends = ["torch"], or pass pointers and leave tensors to the binding'
        return Code.TORCH_NOT_DECLARED, message, advice
    here = posixpath.normpath(include.path)
    known = here in section.found or files.exists(here)
    if known and include.quoted and not include.path.startswith(section.libraries):
        message = f"`{here}` is included here, but no directory of `include` in {section.title} leads to it"
        advice = 'add "." to `include`' if section.include else 'write include = ["."]'
        listed = "" if here in section.found else f', and add "{here}" to `src`'
        return Code.UNLISTED_HEADER, message, f"{advice} in {section.title}{listed}"
    return None


def _target(files: _Files, section: _Section, path: str, include: Include) -> str | None:
    """The file of the project that an include means, or None if it means none."""
    folders = [posixpath.dirname(path)] if include.quoted else []
    for folder in (*folders, *section.include):
        candidate = posixpath.normpath(posixpath.join(folder, include.path))
        if candidate in section.found or files.exists(candidate):
            return candidate
    return None
