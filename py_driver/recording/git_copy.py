"""The git repository of a project whose `.git` is a file: a worktree or a submodule."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.recording.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

GIT: Final = ".git"

_PARTS: Final = ("objects", "refs", "packed-refs", "shallow", "info")
_CONFIG: Final = "config"
_OF_WORKTREE: Final = ("HEAD", "index")
_WORKTREE: Final = re.compile(r"^\s*worktree\s*=\s*(.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A file of a project.

    Attributes:
        path: the path relative to the project.
        source: the file to copy.
        link: the target, if it is copied as a symbolic link.
    """

    path: str
    source: Path
    link: str | None = None


def repository_entries(file: Path) -> Iterator[Entry]:
    """The files of a repository, as entries of a directory `.git` in the project.

    Only a repository that names the project as its own is used: the `.git` of a foreign project could name any.

    Args:
        file: the `.git` of the project.
    """
    own = _leads_to(file, "gitdir:")
    if own is None:
        return
    shared = _leads_to(own / "commondir", "")
    parts: tuple[str, ...] = _PARTS
    if shared is not None:
        back = _leads_to(own / "gitdir", "")
        belongs, parts = back is not None and _is_same(back, file), (*parts, _CONFIG)
    else:
        found = _WORKTREE.search(_text(own / _CONFIG))
        belongs = found is not None and _is_same(own / found[1], file.parent)
    source = shared or own
    if not belongs or size_of(source) > facts()["copy"]["git-bytes"]:
        return
    for name in _OF_WORKTREE:
        if (own / name).is_file():
            yield Entry(path=f"{GIT}/{name}", source=own / name)
    for name in parts:
        for path in sorted((source / name).rglob("*")) if (source / name).is_dir() else [source / name]:
            if path.is_file() and not path.is_symlink():
                yield Entry(path=f"{GIT}/{path.relative_to(source).as_posix()}", source=path)


def size_of(directory: Path) -> int:
    """The size of the files below a directory, in bytes."""
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file())


def _leads_to(file: Path, before: str) -> Path | None:
    """The path in a file, after a prefix; None if there is none."""
    text = _text(file).strip()
    if not text.startswith(before) or not text:
        return None
    return Path(os.path.normpath(file.parent / text.removeprefix(before).strip()))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _is_same(path: Path, other: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)
