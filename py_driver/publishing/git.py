"""The state of a project's sources in git; only publishing, comparing and `--changed-since` need it.

For publishing, nothing runs that a project's own configuration names: git only lists its objects, and this module
compares the files with them.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.building.variant_dir import BUILD, SLICES
from py_driver.errors import Code, error
from py_driver.plan.links import is_in_repository
from py_driver.publishing.provenance import Sources
from py_driver.system.files import contains, reading
from py_driver.system.git import ask, names, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OUTPUTS: Final = (f":(exclude){BUILD}", f":(exclude){SLICES}")
"""The arguments that exclude built files from git's answers."""

_SUBMODULE: Final = "160000"
_PART: Final = 1 << 20
_POINTER: Final = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize ([0-9]+)\n", re.ASCII
)
"""The content of a pointer in git to a file in Large File Storage, of version 1 of its specification."""

_POINTER_SIZE: Final = 1024
_DIGESTS: Final = {40: "sha1", 64: "sha256"}


def sources(directory: Path, files: Iterable[str]) -> tuple[Sources, str]:
    """The commit of a project, and the first file that differs from it; both empty without a repository or git.

    Bytes are compared: a file that git checks out with other bytes than it stores, e.g. with other line endings,
    differs from the commit. For a file in Large File Storage the commit has the digest. The target of a link counts
    too, wherever it is in the repository. Of submodules, only the named files count.

    Args:
        directory: the directory of the project.
        files: all files that it is built from or that are published with it, relative to `directory`.

    Raises:
        DriverError: DIRTY_TREE if git refuses to read the repository, e.g. because it is another user's, or lacks an
            object; PERMISSION.
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
        if commit and not {*files, *led_to} <= tree.keys():
            of_submodules = _trees_of_submodules(directory, commit)
            tree |= {name: of_submodules[name] for name in {*files, *led_to} & of_submodules.keys()}
        # Neither includes ignored files.
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
    """The files below a directory that differ from a commit or are untracked, relative to it.

    Here git itself compares, so it may run a filter of the user's configuration, as `git status` does.

    Args:
        directory: the directory within a repository; built files do not count.
        revision: a commit, or two as in `origin/main...HEAD`.

    Raises:
        DriverError: USAGE if there is no such commit, no repository or no git.
    """
    own = ("--", ".", *OUTPUTS)
    try:
        # For two commits git compares the first with the second; for one, with the working tree.
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
    """Extract the files of a commit below a directory into a temporary directory.

    A link to a file of the repository outside of the directory becomes a copy of the file; other links out are dropped.
    Submodules are included if they are checked out and have the commit.

    Args:
        directory: the directory within a repository.
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
    with tempfile.TemporaryDirectory(prefix="driver-") as folder:
        project = Path(folder, "project")
        if _extracted(archive, project):
            _extract_submodules(directory, commit, project)
            yield project
            return
        repository = Path(folder, "repository")
        top, prefix = (_line(ask(directory, "rev-parse", word)) for word in ("--show-toplevel", "--show-prefix"))
        _extracted(ask(Path(top), "archive", "--format=tar", commit), repository)
        _extract_submodules(directory, commit, repository / prefix)
        _copy_targets(repository / prefix)
        yield repository / prefix


def _line(answer: bytes) -> str:
    """The path that git prints as a line."""
    return os.fsdecode(answer).removesuffix("\n")


def _extracted(archive: bytes, folder: Path) -> bool:
    """Extract an archive of git, without links out of the folder; returns whether there were none.

    Before Python 3.11.4, tarfile has no filters.
    """
    root = os.path.realpath(folder)
    links: dict[Path, str] = {}
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            path = Path(os.path.normpath(f"{root}/{member.name}"))
            if not contains(root, str(path)):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                links[path] = member.linkname
            elif (content := files.extractfile(member)) is not None:
                path.write_bytes(content.read())
                path.chmod(stat.S_IRUSR | stat.S_IWUSR | (member.mode & stat.S_IXUSR))
            else:
                path.mkdir(exist_ok=True)
    for path, target in links.items():  # after all files, which are thus not written through links
        path.symlink_to(target)
    out = [path for path in links if not contains(root, os.path.realpath(path))]
    for path in out:
        path.unlink()
    return not out


def _extract_submodules(directory: Path, commit: str, folder: Path) -> None:
    """Extract the submodules of a commit below a directory, which git leaves out of archives."""
    for name, (mode, own) in _entries(directory, commit, ".").items():
        if mode == _SUBMODULE:
            with suppress(FileNotFoundError, subprocess.CalledProcessError):
                _extracted(ask(directory / name, "archive", "--format=tar", own), folder / name)
                _extract_submodules(directory / name, own, folder / name)


def _copy_targets(directory: Path) -> None:
    """Replace the links out of a directory by copies of what they lead to."""
    root = os.path.realpath(directory)
    for link in [path for path in directory.rglob("*") if path.is_symlink()]:
        target = os.path.realpath(link)
        if contains(root, target) or not os.path.exists(target):  # noqa: PTH110  (of a string)
            continue
        link.unlink()
        if os.path.isdir(target):  # noqa: PTH112  (likewise)
            shutil.copytree(target, link, ignore_dangling_symlinks=True)
        else:
            shutil.copyfile(target, link)


def _head(directory: Path) -> str:
    """The commit that is checked out; empty in a repository without commits."""
    try:
        return ask(directory, "rev-parse", "--verify", "-q", "HEAD").decode().strip()
    except subprocess.CalledProcessError:
        return ""


def _tree(directory: Path, commit: str, *paths: str) -> dict[str, tuple[str, str]]:
    """The mode and git's blob name of each file of a commit at or below paths, without built files and submodules."""
    return {
        name: (mode, blob)
        for name, (mode, blob) in _entries(directory, commit, *paths).items()
        if mode != _SUBMODULE and not name.startswith((f"{BUILD}/", f"{SLICES}/"))
    }


def _trees_of_submodules(directory: Path, commit: str) -> dict[str, tuple[str, str]]:
    """The mode and git's blob name of each file in the submodules of a commit that are checked out."""
    found: dict[str, tuple[str, str]] = {}
    for name, (mode, own) in _entries(directory, commit, ".").items():
        if mode == _SUBMODULE:
            with suppress(FileNotFoundError, subprocess.CalledProcessError):
                trees = _tree(directory / name, own, ".") | _trees_of_submodules(directory / name, own)
                found |= {f"{name}/{file}": blob for file, blob in trees.items()}
    return found


def _entries(directory: Path, commit: str, *paths: str) -> dict[str, tuple[str, str]]:
    """The mode and git's object name of each file and submodule of a commit at or below paths."""
    found = {}
    for line in names(ask(directory, "ls-tree", "-r", "-z", commit, *paths)):
        about, _, name = line.partition("\t")
        mode, _, own = about.split(" ")
        found[name] = (mode, own)
    return found


def _is_same(directory: Path, name: str, mode: str, blob: str) -> bool:
    """Whether a file has the content that is in git."""
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
        if pointer := _pointer(path.parent, blob):
            return int(pointer[2]) == size and _digest(_parts(path), "sha256") == pointer[1].decode()
    return False


def _pointer(directory: Path, blob: str) -> re.Match[bytes] | None:
    """The pointer in git to a file in Large File Storage; None if git has the file itself."""
    if int(ask(directory, "cat-file", "-s", blob)) > _POINTER_SIZE:
        return None
    return _POINTER.fullmatch(ask(directory, "cat-file", "blob", blob))


def _parts(path: Path, head: bytes = b"") -> Iterator[bytes]:
    """A prefix, then the content of a file in parts."""
    yield head
    with path.open("rb") as stream:
        while part := stream.read(_PART):
            yield part


def _digest(parts: Iterable[bytes], algorithm: str) -> str:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
