"""Unpacks archives into a directory, and nowhere else: wheels, bundles of wheel members, Debian packages, tars."""

from __future__ import annotations

import io
import os
import posixpath
import shutil
import stat
import subprocess
import tarfile
import tempfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.entry import Entry, Origin
from py_driver.fetch.wheel_members import is_broken
from py_driver.system.cache import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_AR_MAGIC: Final = b"!<arch>\n"
_AR_HEADER_BYTES: Final = 60
_BLOCK: Final = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The members of an archive to unpack, and their names.

    Attributes:
        include: the files and directories to unpack, with their names in the archive; empty for all.
        exclude: files and directories among them to skip.
        strip_prefix: the directory to remove from names; members outside of it are skipped.
        max_bytes: the maximum disk space; None for a trusted archive.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    strip_prefix: str = ""
    max_bytes: int | None = None

    def target(self, name: str) -> str:
        """The name below the destination, or an empty string for a skipped member."""
        if (self.include and not _is_below(name, self.include)) or _is_below(name, self.exclude):
            return ""
        prefix = self.strip_prefix.strip("/")
        if not prefix:
            return name
        return name.removeprefix(f"{prefix}/") if name.startswith(f"{prefix}/") else ""


def _is_below(name: str, places: Sequence[str]) -> bool:
    """Whether a member is one of the files, or in one of the directories."""
    return any(name == path or name.startswith(f"{path.rstrip('/')}/") for path in places)


def unpack(archive: Path, entry: Entry, destination: Path, selection: Selection | None = None) -> int:
    """Unpack an archive of the store.

    Args:
        archive: its path; `Fetcher.fetch` has just verified its bytes.
        entry: its lock entry.
        destination: the directory, created if missing.
        selection: the members to unpack (default: all).

    Returns:
        The number of files and links written.

    Raises:
        DriverError: the archive is damaged (BAD_DIGEST), names a place outside the destination (PATH_ESCAPES), has none
            of the selected members (NOT_FOUND_UPSTREAM), is too large (UNSUPPORTED), uses a compression that this
            machine does not support (PLATFORM), or the destination cannot be written (NO_SPACE, PERMISSION).
    """
    tree = _Tree(destination, selection or Selection(), entry.basename)
    try:
        with storage_errors(destination):
            destination.mkdir(parents=True, exist_ok=True)
            if entry.origin is Origin.DEBIAN or entry.filename.endswith(".deb"):  # vendors also have .deb files
                _unpack_deb(archive, tree)
            elif entry.origin is Origin.URL or entry.sdist:
                with tarfile.open(archive) as members:
                    _unpack_tar(members, tree)
            else:
                _unpack_zip(archive, entry, tree)
            tree.check_links()
    except Exception as wrong:
        if not (isinstance(wrong, tarfile.TarError) or is_broken(wrong)):
            raise
        raise error(
            Code.BAD_DIGEST,
            f"{entry.basename} is damaged: {wrong}",
            help=f"{archive} has the digest in the lock: lock another archive",
        ) from wrong
    if not tree.written:
        raise error(Code.NOT_FOUND_UPSTREAM, f"{entry.basename} has none of the files required by the lock")
    return tree.written


class _Tree:
    """A directory that is being filled; refuses members that would be outside of it."""

    def __init__(self, root: Path, selection: Selection, archive: str) -> None:
        self.written = 0
        self._root = root
        self._selection = selection
        self._archive = archive
        self._directories: set[str] = {""}
        self._links: list[Path] = []
        self._bytes = 0

    def wants(self, name: str) -> bool:
        """Whether a member is selected; a selected member with an unsafe name is an error."""
        return bool(self._target(name))

    def file(self, name: str, source: IO[bytes], *, executable: bool) -> None:
        """Write a file."""
        path = self._place(name)
        with path.open("xb") as writer:
            while part := source.read(1024 * 1024):
                self._count(len(part))
                writer.write(part)
        path.chmod(0o755 if executable else 0o644)

    def link(self, name: str, target: str) -> None:
        """Write a symbolic link."""
        below = posixpath.normpath(posixpath.join(posixpath.dirname(self._target(name)), target))
        if target.startswith("/") or below == ".." or below.startswith("../"):
            raise self._escape(f"{name} -> {target}")
        path = self._place(name)
        path.symlink_to(target)
        self._links.append(path)

    def check_links(self) -> None:
        """Check that no link leads outside through other links."""
        root = self._root.resolve()
        for path in self._links:
            try:
                inside = path.resolve().is_relative_to(root)
            except (OSError, RuntimeError):  # a loop of links leads nowhere
                inside = True
            if not inside:
                path.unlink()
                raise self._escape(str(path.relative_to(self._root)))

    def _target(self, name: str) -> str:
        if name.startswith("/") or ".." in name.split("/") or "\0" in name:
            raise self._escape(name)
        return posixpath.normpath(target) if (target := self._selection.target(name)) else ""

    def _place(self, name: str) -> Path:
        """The path to write; its directories exist, and the path does not."""
        target = self._target(name)
        parent = posixpath.dirname(target)
        if parent not in self._directories:
            at = self._root
            for part in parent.split("/"):
                at /= part
                if at.is_symlink():
                    raise self._escape(name)
                at.mkdir(exist_ok=True)
            self._directories.add(parent)
        path = self._root / target
        if path.is_symlink() or path.is_file():
            path.unlink()
        self.written += 1
        self._count(_BLOCK)
        return path

    def _count(self, size: int) -> None:
        """Count written bytes, and refuse more than allowed."""
        self._bytes += size
        if self._selection.max_bytes is not None and self._bytes > self._selection.max_bytes:
            message = f"{self._archive} has more than {self._selection.max_bytes >> 20} MiB"
            raise error(Code.UNSUPPORTED, message, help="do not use this archive")

    def _escape(self, name: str) -> DriverError:
        return error(
            Code.PATH_ESCAPES,
            f"{self._archive}: {name} lies outside of the directory it is unpacked into",
            help="do not use this archive",
        )


def _unpack_zip(path: Path, entry: Entry, tree: _Tree) -> None:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if (
                info.is_dir()
                or not tree.wants(info.filename)
                or (entry.members_only and not entry.wants(info.filename))
            ):
                continue
            mode = info.external_attr >> 16
            if stat.S_ISLNK(mode):
                tree.link(info.filename, archive.read(info).decode())
            else:
                with archive.open(info) as source:
                    tree.file(info.filename, source, executable=bool(mode & 0o111))


def _unpack_deb(path: Path, tree: _Tree) -> None:
    with path.open("rb") as file:
        name, start, size = _data_member(file)
        with _tar(path, name, _Slice(file, start, size)) as archive:
            _unpack_tar(archive, tree)


def _unpack_tar(archive: tarfile.TarFile, tree: _Tree) -> None:
    for member in archive:
        relative = member.name.removeprefix("./")
        if member.isdir() or not tree.wants(relative):
            continue
        if member.issym():
            tree.link(relative, member.linkname)
        elif member.isfile() or member.islnk():
            source = archive.extractfile(member)
            if source is None:
                raise tarfile.TarError(f"{relative} links to nothing")
            tree.file(relative, source, executable=bool(member.mode & 0o111))
    _drain(archive)


def _drain(archive: tarfile.TarFile) -> None:
    """Read to the end, so that the checksum of the compressed stream is verified too."""
    while archive.fileobj is not None and archive.fileobj.read(1024 * 1024):
        pass


@contextmanager
def _tar(path: Path, name: str, data: _Slice) -> Iterator[tarfile.TarFile]:
    """The data archive of a package, with any compression."""
    compression = name.rpartition(".")[2]
    if compression in {"xz", "gz", "tar", "bz2"}:
        with tarfile.open(fileobj=io.BufferedReader(data, 1024 * 1024)) as archive:
            yield archive
        return
    tool = shutil.which("dpkg-deb")
    if tool is None:
        raise error(
            Code.PLATFORM,
            f"{path.name}: cannot undo the {compression} compression of {name}",
            help="install dpkg: its dpkg-deb knows every compression that packages use",
        )
    with tempfile.TemporaryFile() as plain:
        done = subprocess.run([tool, "--fsys-tarfile", str(path)], stdout=plain, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise tarfile.TarError(done.stderr.decode("utf-8", "replace").strip())
        plain.seek(0)
        with tarfile.open(fileobj=plain) as archive:
            yield archive


def _data_member(file: IO[bytes]) -> tuple[str, int, int]:
    """Name, offset and size of the data archive in a package, which is an `ar` archive."""
    if file.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise tarfile.TarError("it is not a Debian package")
    while header := file.read(_AR_HEADER_BYTES):
        name = header[:16].decode("ascii", "replace").strip().rstrip("/")
        digits = header[48:58].strip()
        if len(header) < _AR_HEADER_BYTES or not digits.isdigit():
            break
        size = int(digits)
        if name.startswith("data.tar"):
            if file.tell() + size > os.fstat(file.fileno()).st_size:
                raise tarfile.TarError("it ends too early")
            return name, file.tell(), size
        file.seek(size + size % 2, os.SEEK_CUR)
    raise tarfile.TarError("it has no data archive")


class _Slice(io.RawIOBase):
    """A part of a file, as a file."""

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        self._file = file
        self._start = start
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # typeshed: any writable buffer
        self._file.seek(self._start + self._position)
        data = self._file.read(max(0, min(len(buffer), self._size - self._position)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
