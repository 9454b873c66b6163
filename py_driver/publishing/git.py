"""What git says of a project's sources; it is asked only where something is published or compared, or to choose.

For what is published nothing is run that a project's own configuration names: git is asked for what it has, and whether
the files are the same is looked at here.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.building.variant_dir import BUILD, SLICES
from py_driver.errors import Code, error
from py_driver.plan.links import is_in_repository
from py_driver.publishing.provenance import Sources
from py_driver.system.files import reading
from py_driver.system.git import ask, names, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OUTPUTS: Final = (f":(exclude){BUILD}", f":(exclude){SLICES}")
"""How git is told to leave out what is built."""

_SUBMODULE: Final = "160000"
_PART: Final = 1 << 20
_POINTER: Final = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize ([0-9]+)\n", re.ASCII
)
"""What git has of a file that is in Large File Storage, of version 1 of its specification."""

_POINTER_SIZE: Final = 1024
_DIGESTS: Final = {40: "sha1", 64: "sha256"}


def sources(directory: Path, files: Iterable[str]) -> tuple[Sources, str]:
    """The commit of a project, and the first file that differs from it. Both are empty without a repository or git.

    A file is what its bytes are: one that git checks out with other bytes than it has, e.g. with other ends of lines,
    is not as the commit has it. Of one in Large File Storage the commit has the digest. What a link leads to counts as
    well, wherever it is in the repository.

    Args:
        directory: of the project.
        files: all that it is built from and all that is published of it, relative to that.

    Raises:
        DriverError: DIRTY_TREE if there is a repository that git does not look at, e.g. because it is another user's,
            or that lacks what is looked at; PERMISSION.
    """
    try:
        others = ["ls-files", "-z", "--others", "--exclude-standard", "--", ".", *OUTPUTS]
        new = names(ask(directory, *others))
        commit = _head(directory)
        tree = _tree(directory, commit, ".") if commit else {}
        led_to = {os.path.relpath(os.path.realpath(directory / name), os.path.realpath(directory)) for name in files}
        elsewhere = sorted(name for name in led_to if name.startswith("../"))
        if commit and elsewhere:
            tree |= _tree(directory, commit, *elsewhere)
        # What git is told to ignore is in neither.
        new += sorted({*files, *led_to} - tree.keys())
        changed = next((name for name, blob in tree.items() if not _is_same(directory, name, *blob)), "")
    except FileNotFoundError:
        return Sources(), ""
    except subprocess.CalledProcessError as problem:
        if not is_in_repository(directory):
            return Sources(), ""
        message = f"git cannot report whether {directory} has changes: {said(problem)}"
        raise error(Code.DIRTY_TREE, message, help=f"see `git -C {directory} status`") from None
    changed = changed or next(iter(new), "")
    return Sources(commit=commit, dirty=bool(changed)), changed


def changed_files(directory: Path, revision: str) -> list[str]:
    """The files below a directory that differ from a commit, or that git does not know yet, relative to it.

    Here git compares, and for that may run a filter that the user's configuration names, as `git status` does.

    Args:
        directory: within a repository; what a project builds in it does not count.
        revision: a commit, or two as in `origin/main...HEAD`.

    Raises:
        DriverError: USAGE if there is no such commit, no repository or no git.
    """
    own = ("--", ".", *OUTPUTS)
    try:
        # Of two commits git compares the first with the second; of one, with the files as they are.
        known = ["diff", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "--relative", "-z"]
        changed = names(ask(directory, *known, "--end-of-options", revision, *own))
        return changed + names(ask(directory, "ls-files", "-z", "--others", "--exclude-standard", *own))
    except FileNotFoundError:
        raise error(Code.USAGE, "--changed-since needs git, and there is none on PATH") from None
    except subprocess.CalledProcessError as problem:
        message = f"git cannot list the changes in {directory} since `{revision}`: {said(problem)}"
        advice = "name a commit that the repository has; a shallow clone has few: git fetch --unshallow"
        raise error(Code.USAGE, message, help=advice) from None


@contextmanager
def checked_out(directory: Path, revision: str) -> Iterator[Path]:
    """What a commit has below a directory, in a directory of its own as long as this lasts.

    Args:
        directory: within a repository.
        revision: a commit.

    Raises:
        DriverError: USAGE if there is no such commit, no repository or no git.
    """
    advice = "name a commit that has the project, e.g. HEAD~1"
    try:
        commit = ask(directory, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    except FileNotFoundError:
        raise error(Code.USAGE, f"`{revision}` needs git, and there is none on PATH") from None
    except subprocess.CalledProcessError as problem:
        raise error(
            Code.USAGE, f"git has no commit `{revision}` of {directory}: {said(problem)}", help=advice
        ) from None
    try:
        archive = ask(directory, "archive", "--format=tar", commit, ".")
    except subprocess.CalledProcessError:
        raise error(Code.USAGE, f"the commit `{revision}` has no {directory}", help=advice) from None
    with tempfile.TemporaryDirectory(prefix="driver-") as folder, tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
        yield Path(folder)


def _head(directory: Path) -> str:
    """The commit that is checked out; nothing in a repository without any."""
    try:
        return ask(directory, "rev-parse", "--verify", "-q", "HEAD").decode().strip()
    except subprocess.CalledProcessError:
        return ""


def _tree(directory: Path, commit: str, *paths: str) -> dict[str, tuple[str, str]]:
    """The files that a commit has at or below paths, but for what is built: the mode and git's name of each."""
    found = {}
    for line in names(ask(directory, "ls-tree", "-r", "-z", commit, *paths)):
        about, _, name = line.partition("\t")
        mode, _, blob = about.split(" ")
        if mode != _SUBMODULE and not name.startswith((f"{BUILD}/", f"{SLICES}/")):
            found[name] = (mode, blob)
    return found


def _is_same(directory: Path, name: str, mode: str, blob: str) -> bool:
    """Whether a file has the content that git has."""
    path = directory / name
    try:
        kind = stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        return False
    if kind != stat.S_IFMT(int(mode, 8)):
        return False
    with reading(path):
        digest = _DIGESTS[len(blob)]
        if kind == stat.S_IFLNK:
            target = os.fsencode(path.readlink())
            return _digest([b"blob %d\0" % len(target), target], digest) == blob
        size = path.stat().st_size
        if _digest(_parts(path, b"blob %d\0" % size), digest) == blob:
            return True
        if pointer := _pointer(directory, blob):
            return int(pointer[2]) == size and _digest(_parts(path), "sha256") == pointer[1].decode()
    return False


def _pointer(directory: Path, blob: str) -> re.Match[bytes] | None:
    """What git has of a file in Large File Storage; None if it is the file itself."""
    if int(ask(directory, "cat-file", "-s", blob)) > _POINTER_SIZE:
        return None
    return _POINTER.fullmatch(ask(directory, "cat-file", "blob", blob))


def _parts(path: Path, head: bytes = b"") -> Iterator[bytes]:
    """Some bytes, then those of a file."""
    yield head
    with path.open("rb") as stream:
        while part := stream.read(_PART):
            yield part


def _digest(parts: Iterable[bytes], algorithm: str) -> str:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
