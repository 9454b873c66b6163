"""A copy of a project for its build, without the leftovers of builds and tools."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.recording.facts import facts
from py_driver.recording.git_copy import GIT, Entry, repository_entries, size_of
from py_driver.recording.git_index import INDEX, index_digest
from py_driver.system.files import contains, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ENVIRONMENT: Final = "pyvenv.cfg"
_BLOCK: Final = 1 << 20
_FILE: Final = 0o644
_PROGRAM: Final = 0o755

_OF_GIT: Final = ("HEAD", "packed-refs", "refs", "shallow", "config", INDEX)
"""The parts of a `.git` that determine the version and the files of a project; the rest changes with every use."""

_MADE: Final = (
    *("build/bdist.*", "build/lib*", "build/temp*", "*.egg-info", "*.dist-info", "dist", GIT),
    *("*/CMakeFiles", "*/CMakeCache.txt", "*/CMakeInit.txt", "*/cmake_install.cmake", "*/install_manifest.txt"),
    *("*/build.ninja", "*/.ninja_deps", "*/.ninja_log", "*/.skbuild-info.json", "*/.cmake"),
)
_CACHES: Final = "__pycache__"


def entries(directory: Path) -> list[Entry]:
    """The files of a project that a build sees, sorted.

    A link within the project stays a link. A link to files of the project that are not copied, or elsewhere in the same
    git repository, is replaced by its target; a link that leads out is refused, since it could show a foreign setup.py
    any file of this machine.

    Args:
        directory: the directory of the project, as an absolute path without links.

    Raises:
        DriverError: PATH_ESCAPES for such a link; PERMISSION.
    """
    with reading(directory):
        repository = next((path for path in (directory, *directory.parents) if (path / GIT).exists()), directory)
        found = list(_walk(directory, directory, "", repository, ()))
    return sorted(found, key=lambda entry: entry.path)


def digest(found: list[Entry]) -> str:
    """The digest of the files of a project: their names, modes and contents.

    Raises:
        DriverError: PERMISSION if a file cannot be read.
    """
    total = hashlib.sha256()
    for entry in found:
        parts = entry.path.split("/")
        if parts[0] == GIT and (len(parts) == 1 or parts[1] not in _OF_GIT):
            continue
        with reading(entry.source):
            value = entry.link or _value(entry)
            mode = 0 if entry.link else entry.source.stat().st_mode & stat.S_IXUSR
        total.update(f"{entry.path}\0{mode}\0{value}\0".encode(errors="surrogateescape"))
    return total.hexdigest()


def _value(entry: Entry) -> str:
    """The value of a file in the digest: its content; for the index of git, the tracked files."""
    is_index = entry.path == f"{GIT}/{INDEX}"
    return index_digest(entry.source.read_bytes()) if is_index else content_digest(entry.source)


def copy(found: list[Entry], target: Path) -> None:
    """Copy the files of a project into a new, writable directory.

    Raises:
        OSError: a file cannot be read or written.
    """
    target.mkdir()
    for entry in found:
        path = target / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.link is not None:
            path.symlink_to(entry.link)
        else:
            shutil.copy2(entry.source, path)
            path.chmod(_PROGRAM if path.stat().st_mode & stat.S_IXUSR else _FILE)


State = tuple[int, int, int]
"""The properties that change when a file is written: its size, the time of its last change, and its inode."""


def states(directory: Path) -> dict[str, State]:
    """The state of each file below a directory, without the outputs of setuptools and CMake.

    A link to a file in the directory counts as that file; other links are left out.
    """
    found = {}
    root = os.path.realpath(directory)
    for parent, names, files in os.walk(directory):
        inner = os.path.relpath(parent, directory)
        below = "" if inner == "." else f"{inner}/"
        names[:] = sorted(name for name in names if name != _CACHES and not _is_made(f"{below}{name}"))
        for name in files:
            path = os.path.join(parent, name)  # noqa: PTH118  (thousands of them)
            own = not os.path.islink(path) or contains(root, os.path.realpath(path))  # noqa: PTH114
            if own and os.path.isfile(path) and not _is_made(f"{below}{name}"):  # noqa: PTH113
                value = os.stat(path)  # noqa: PTH116
                found[f"{below}{name}"] = (value.st_size, value.st_ctime_ns, value.st_ino)
    return found


def changed(directory: Path, before: Mapping[str, State], found: list[Entry]) -> list[str]:
    """The files of a copy that are new or differ from the project, sorted.

    Args:
        directory: the copy.
        before: the states after copying.
        found: the files of the project.
    """
    sources = {entry.path: entry.source for entry in found}
    return [
        path
        for path, state in sorted(states(directory).items())
        if before.get(path) != state
        and not (path in sources and content_digest(directory / path) == content_digest(sources[path]))
    ]


def content_digest(path: Path) -> str:
    """The hexadecimal SHA-256 of a file."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            total.update(block)
    return total.hexdigest()


def _is_made(path: str) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in _MADE)


def _walk(root: Path, directory: Path, below: str, repository: Path, entered: tuple[str, ...]) -> Iterator[Entry]:
    table = facts()["copy"]
    with os.scandir(directory) as listing:
        children = list(listing)
    for entry in children:
        path = below + entry.name
        if _is_of_tools(path):
            continue
        source = Path(entry.path)
        if entry.is_symlink():
            yield from _link(root, source, path, repository, entered)
        elif entry.is_dir(follow_symlinks=False):
            if path == GIT and size_of(source) > table["git-bytes"]:
                continue
            if entry.name not in table["names"] and not (source / _ENVIRONMENT).exists():
                yield from _walk(root, source, f"{path}/", repository, entered)
        elif entry.is_file(follow_symlinks=False):
            yield from [Entry(path=path, source=source)] if path != GIT else repository_entries(source)


def _is_of_tools(path: str) -> bool:
    """Whether an entry of a project's directory is the output of a build."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in facts()["copy"]["top"])


def _is_copied(inner: str) -> bool:
    """Whether a path of a project is copied with it."""
    parts = inner.split("/")
    tops = ("/".join(parts[: count + 1]) for count in range(len(parts)))
    return not any(map(_is_of_tools, tops)) and not {*parts} & {*facts()["copy"]["names"]}


def _link(root: Path, source: Path, path: str, repository: Path, entered: tuple[str, ...]) -> Iterator[Entry]:
    target = os.path.realpath(source)
    text = os.readlink(source)  # noqa: PTH115  (as it is)
    own = contains(str(root), target) and _is_copied(os.path.relpath(target, root))
    if not os.path.exists(target) or (own and not text.startswith("/")):  # noqa: PTH110  (a link to nothing stays one)
        yield Entry(path=path, source=source, link=text)
    elif not contains(str(repository), target):
        message = f"`{path}` of the project is a link that leads out of it, to {target}"
        raise error(Code.PATH_ESCAPES, message, help="put the files themselves into the project, or remove the link")
    elif os.path.isdir(target):  # noqa: PTH112
        if target in entered or contains(target, str(root)):
            raise error(Code.PATH_ESCAPES, f"`{path}` of the project is a link to a directory that it is in")
        yield from _walk(root, Path(target), f"{path}/", repository, (*entered, target))
    else:
        yield Entry(path=path, source=Path(target))
