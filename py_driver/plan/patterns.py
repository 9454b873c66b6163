"""Patterns in `src`, expanded to files in the same order everywhere."""

from __future__ import annotations

import os
import re
from fnmatch import translate
from functools import cache
from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.model import Located
from py_driver.manifest.paths import path_problem
from py_driver.output import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from py_driver.errors import Span
    from py_driver.manifest.model import Manifest, Text, Texts
    from py_driver.manifest.section import Findings

_SIGN = re.compile(r"[*?\[\]]")
_BELOW = "**"
_MADE = re.compile(r"\.|build$|bazel-")
"""Prefixes of directories in a project's directory that are not searched for sources."""


def with_files(directory: Path, manifest: Manifest, findings: Findings) -> Manifest:
    """A manifest with patterns in `src` replaced by files.

    Args:
        directory: the project's directory.
        manifest: the project's build.toml.
        findings: gets FILE_MISSING, PATH_ESCAPES or BAD_VALUE for a pattern that matches no file, a note for others.
    """
    framework, built = manifest.framework, manifest.built if not manifest.framework.noarch else ()
    binding = _expanded(directory, framework.src, findings, needed=True)
    kernels = tuple(
        kernel._replace(src=_expanded(directory, kernel.src, findings, needed=kernel.backend.value in built))
        for kernel in manifest.kernels
    )
    return manifest._replace(framework=framework._replace(src=binding), kernels=kernels)


def _expanded(directory: Path, src: Texts, findings: Findings, *, needed: bool) -> Texts:
    if not any(_SIGN.search(text.value) for text in src):
        return src

    def complain(code: Code, message: str, span: Span, label: str = "") -> None:
        """Collect an error; a note in a section that is not built."""
        if needed:
            findings.add(code, message, span, label=label)
        else:
            findings.note(f"{message}; the section is not built", span, code)

    listed = {text.value for text in src}
    found: list[Text] = []
    for text in src:
        if not _SIGN.search(text.value):
            found.append(text)
        elif problem := path_problem(_SIGN.sub("x", text.value)):
            complain(problem[0], f"the path `{text.value}` {problem[1]}", text.span)
        elif files := sorted(set(_matches(str(directory), "", text.value.split("/")))):
            message = f"`{text.value}` matches {counted(len(files), 'file')}; kernel-builder accepts no patterns"
            findings.note(message, text.span)
            found += (Located(value=name, span=text.span) for name in files if name not in listed)
            listed.update(files)
        else:
            there = _in_place_of(str(directory), text.value)
            complain(Code.FILE_MISSING, f"`{text.value}` matches no file of the project", text.span, there)
    return tuple(found)


def _in_place_of(root: str, pattern: str) -> str:
    """A hint for a pattern without matches: the directory's sources; empty if nothing is similar.

    Args:
        root: the project's directory.
        pattern: the pattern.
    """
    folder, _, name = pattern.rpartition("/")
    while folder and not os.path.isdir(f"{root}/{folder}"):  # noqa: PTH112  (no Path for each pattern)
        gone, name = folder, "*" + os.path.splitext(name)[1]  # noqa: PTH122
        folder = folder.rpartition("/")[0]
        if not folder or os.path.isdir(f"{root}/{folder}"):  # noqa: PTH112
            near = sorted(_matches(root, "", [*folder.split("/"), name])) if folder else []
            return f"there is no {gone}" + (f"; there is {near[0]}" if near else "")
    near = sorted(_matches(root, "", [*filter(None, folder.split("/")), "*.*"]))
    return f"there is {near[0]}" if near else ""


def _matches(root: str, folder: str, parts: list[str]) -> Iterator[str]:
    """The files below a directory of the project whose paths match the parts of a pattern.

    Args:
        root: the project's directory.
        folder: a directory in it, with a slash at the end; empty for the project's directory.
        parts: the parts of the pattern.
    """
    first, rest = parts[0], parts[1:]
    if first == _BELOW:
        for below in (folder, *_folders(root, folder)):
            yield from _matches(root, below, rest or ["*"])
    elif rest:
        names = (entry.name for entry in _entries(root, folder, first) if entry.is_dir())
        for name in names if _SIGN.search(first) else [first]:
            yield from _matches(root, f"{folder}{name}/", rest)
    else:
        yield from (f"{folder}{entry.name}" for entry in _entries(root, folder, first) if entry.is_file())


def _folders(root: str, folder: str) -> Iterator[str]:
    """The directories below a directory, at any depth, except hidden ones, links, and build outputs."""
    for entry in _entries(root, folder, "*"):
        if entry.is_dir(follow_symlinks=False) and not (folder == "" and _MADE.match(entry.name)):
            below = f"{folder}{entry.name}/"
            yield below
            yield from _folders(root, below)


def _entries(root: str, folder: str, pattern: str) -> Iterable[os.DirEntry[str]]:
    """The entries of a directory that match a part of a pattern; hidden ones only if it begins with a dot too."""
    matches = _matcher(pattern)
    try:
        with os.scandir(f"{root}/{folder}") as entries:
            return [
                entry
                for entry in entries
                if matches(entry.name) and entry.name.startswith(".") == pattern.startswith(".")
            ]
    except OSError:
        return []


@cache
def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(translate(pattern)).match
