"""The libraries of a file, a wheel or an installed package, with its metadata."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING, Final, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.wheel_members import BROKEN_ZIP
from py_driver.inspecting.library_needs import needs_of
from py_driver.publishing.wheel_metadata import fields
from py_driver.spelling import near_path
from py_driver.system.elf import MAGIC, Elf, MalformedError, mapped
from py_driver.system.files import is_directory, is_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packaging.specifiers import SpecifierSet

    from py_driver.inspecting.library_needs import Needs

_LIBRARY: Final = re.compile(r"[^/]*\.so(\.[\d.]+)?", re.ASCII)
_INFO: Final = ".dist-info"
_METADATA, _WHEEL, _RECORD = "METADATA", "WHEEL", "RECORD"


class Stated(NamedTuple):
    """The metadata of a wheel or an installed package.

    Attributes:
        torch: the releases of torch that it requires; None if it does not require torch.
        python: the Pythons that it requires, `>=3.10`; empty for every Python.
        tags: the tags of its wheel, `cp312-cp312-manylinux_2_28_x86_64`.
    """

    torch: SpecifierSet | None = None
    python: str = ""
    tags: tuple[str, ...] = ()


class Package(NamedTuple):
    """Libraries that are installed together.

    Attributes:
        path: the path of the file, wheel or directory.
        libraries: the needs of each library.
        stated: the metadata; None for a single library, or a directory without metadata.
    """

    path: Path
    libraries: tuple[Needs, ...]
    stated: Stated | None = None


def package_of(path: Path) -> Package:
    """The libraries of a path.

    Args:
        path: a library, a wheel, or a directory, such as a package in site-packages.

    Raises:
        DriverError: FILE_MISSING if there is no library; FILE_KIND if a file is malformed; PERMISSION if it cannot be
            read.
    """
    if is_file(path):
        package = _of_wheel(path) if path.suffix == ".whl" else Package(path, (_of_file(path, str(path)),))
    elif is_directory(path):
        package = _of_directory(path)
    else:
        advice = near_path(path) or "name a library, a wheel, or the directory of an installed package"
        raise error(Code.FILE_MISSING, f"{path} does not exist", help=advice)
    if not package.libraries:
        raise error(Code.FILE_MISSING, f"{path} contains no shared library", help="Python files load with every torch")
    return package


def _of_wheel(path: Path) -> Package:
    """The libraries of a wheel.

    Raises:
        DriverError: FILE_KIND if it is not a wheel, or one of its libraries cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            found = []
            for name in names:
                if _LIBRARY.fullmatch(name.rpartition("/")[2]):
                    content = archive.read(name)
                    if content.startswith(MAGIC):
                        found.append(_read(Elf(content), name, f"{path}/{name}"))
            infos = {name.partition("/")[0] for name in names if name.partition("/")[0].endswith(_INFO)}
            texts = {
                member: archive.read(f"{info}/{member}")
                for info in infos
                for member in (_METADATA, _WHEEL)
                if f"{info}/{member}" in names
            }
    except MalformedError as problem:
        raise _unreadable(str(path), problem) from None
    except (OSError, *BROKEN_ZIP) as problem:
        raise error(Code.FILE_KIND, f"{path} cannot be read as a wheel: {problem}") from None
    return Package(path, tuple(found), _stated(texts.get(_METADATA, b""), texts.get(_WHEEL, b"")))


def _of_directory(path: Path) -> Package:
    """The libraries below a directory, and auditwheel's beside it, which are in NAME.libs.

    Raises:
        DriverError: FILE_KIND or PERMISSION if a library cannot be read.
    """
    path = path.resolve()
    beside = path.parent / f"{path.name}.libs"
    files = [file for root in (path, beside) if root.is_dir() for file in sorted(root.rglob("*.so*"))]
    found = [
        _of_file(file, str(file.relative_to(path.parent)))
        for file in files
        if file.is_file() and not file.is_symlink() and _LIBRARY.fullmatch(file.name) and _begins_as_elf(file)
    ]
    info = next((info for info in sorted(path.parent.glob(f"*{_INFO}")) if path.name in _tops(info)), None)
    texts = [info / _METADATA, info / _WHEEL] if info else []
    contents = [text.read_bytes() if text.is_file() else b"" for text in texts]
    return Package(path, tuple(found), _stated(*contents) if contents else None)


def _tops(info: Path) -> set[str]:
    """The directories of an installed package in site-packages."""
    record = info / _RECORD
    lines = record.read_text(encoding="utf-8", errors="replace").splitlines() if record.is_file() else []
    return {line.partition("/")[0] for line in lines}


def _begins_as_elf(path: Path) -> bool:
    """Whether a file begins like a library; a linker script does not.

    Raises:
        DriverError: PERMISSION.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as problem:
        raise _unreadable(str(path), problem) from None


def _of_file(path: Path, name: str) -> Needs:
    """The needs of a library.

    Args:
        path: the path of its file.
        name: its name in messages.

    Raises:
        DriverError: FILE_KIND or PERMISSION.
    """
    try:
        with mapped(path) as elf:
            return _read(elf, name, str(path))
    except (MalformedError, OSError) as problem:
        raise _unreadable(str(path), problem) from None


def _read(elf: Elf, name: str, path: str) -> Needs:
    try:
        return needs_of(elf, name)
    except MalformedError as problem:
        raise _unreadable(path, problem) from None


def _unreadable(name: str, problem: Exception) -> DriverError:
    """The error for a library that cannot be read."""
    if isinstance(problem, OSError):
        return error(Code.PERMISSION, f"cannot read {name}: {problem.strerror}", help="name a file that you may read")
    message = f"{name} is not a complete shared library for 64-bit Linux: cannot read {problem}"
    return error(Code.FILE_KIND, message, help="name a shared library with its section headers, or a wheel")


def _stated(metadata: bytes, wheel: bytes) -> Stated:
    """The statements of METADATA and WHEEL."""
    own = [*fields(metadata)]
    return Stated(
        torch=next(_torch(field.value for field in own if field.name == "requires-dist"), None),
        python=next((field.value for field in own if field.name == "requires-python"), ""),
        tags=tuple(field.value for field in fields(wheel) if field.name == "tag"),
    )


def _torch(requirements: Iterator[str]) -> Iterator[SpecifierSet]:
    """The releases of torch that requirements without an extra allow."""
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) == "torch" and "extra" not in str(requirement.marker or ""):
            yield requirement.specifier
