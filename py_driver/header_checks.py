"""Whether the sources of a project include only what they will find when they are compiled."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.includes import scan
from py_driver.manifest.locate import Source
from py_driver.manifest.model import BUILT, TORCH
from py_driver.manifest.paths import HEADERS, path_problem

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from py_driver.includes import Include
    from py_driver.manifest.model import Manifest, Texts
    from py_driver.manifest.section import Findings

_TORCH_FOLDERS = ("torch/", "ATen/", "c10/", "caffe2/")
_SIZE_LIMIT = 4 * 1024 * 1024
_BINDS = ("REGISTER_EXTENSION", "PyInit_")


def check_includes(directory: Path, manifest: Manifest, findings: Findings) -> None:
    """Collect UNLISTED_HEADER and TORCH_NOT_DECLARED for the sections that are compiled.

    An include that stands inside an `#if` gives a note instead: the compiler may never see it.

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
    binding = _Section(f"[{TORCH}]", framework.src, framework.include, offered, torch=True)
    for section in (binding, *(_Section(one.title, one.src, one.include, (), torch=one.torch) for one in compiled)):
        for path in section.listed:
            _check_file(files, section, path, findings)
    if framework.src and not any(word in files.text(text.value) for text in framework.src for word in _BINDS):
        message = "no file of `src` in [torch] has REGISTER_EXTENSION(TORCH_EXTENSION_NAME); Python cannot import that"
        findings.note(message, framework.src[0].span)


class _Section:
    """What decides which headers the files of a section find."""

    def __init__(self, title: str, src: Texts, include: Texts, offered: Iterable[str], *, torch: bool) -> None:
        self.title = title
        self.torch = torch
        self.listed = [text.value for text in src]
        self.found = {*self.listed, *offered}
        self.include = [text.value for text in include]


class _Files:
    """The files of a project, each read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._texts: dict[str, str] = {}
        self._exists: dict[str, bool] = {}

    def text(self, path: str) -> str:
        """The text of a file; nothing if it cannot be read or is none of the project's."""
        if path not in self._texts:
            self._texts[path] = ""
            real = self._directory / path
            if path_problem(path) is None and real.is_file() and real.stat().st_size <= _SIZE_LIMIT:
                try:
                    self._texts[path] = real.read_text(encoding="utf-8", errors="replace")
                except OSError:
                    return ""
        return self._texts[path]

    def exists(self, path: str) -> bool:
        """Whether the project has a regular file at a path."""
        if path not in self._exists:
            self._exists[path] = path_problem(path) is None and (self._directory / path).is_file()
        return self._exists[path]

    def shown(self, path: str) -> str:
        """A path as the user knows it."""
        return str(self._directory / path)


def _check_file(files: _Files, section: _Section, path: str, findings: Findings) -> None:
    text = files.text(path)
    source = Source(files.shown(path), text)
    for include in scan(text):
        target = _target(files, section, path, include)
        span = source.span(include.start, include.start + len(include.path))
        if target is not None and target not in section.found:
            message = f"`{target}` is included here, but `src` in {section.title} does not list it"
            if include.conditional:
                findings.note(f"{message}; where this `#if` holds, the compiler will not find it", span)
            else:
                advice = f'add "{target}" to `src` in {section.title}'
                findings.add(Code.UNLISTED_HEADER, message, span, advice=advice)
        elif target is None and include.path.startswith(_TORCH_FOLDERS) and not (section.torch or include.conditional):
            message = f"a torch header is included here, but `depends` in {section.title} does not have `torch`"
            advice = 'write depends = ["torch"], or pass pointers and leave tensors to the binding'
            findings.add(Code.TORCH_NOT_DECLARED, message, span, advice=advice)


def _target(files: _Files, section: _Section, path: str, include: Include) -> str | None:
    """The file of the project that an include means, or None if it means none."""
    folders = [posixpath.dirname(path)] if include.quoted else []
    for folder in (*folders, *section.include):
        candidate = posixpath.normpath(posixpath.join(folder, include.path))
        if candidate in section.found or files.exists(candidate):
            return candidate
    return None
