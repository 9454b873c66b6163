"""The libraries that paths mean, measured: of projects, directories, wheels, or files of their own.

The directory with what Triton has compiled counts as a library.
"""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from py_driver.building.abi_check import find_libraries
from py_driver.building.variant_dir import BUILD, SLICES, as_object, read_metadata
from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.inspecting.size import Library, library_of
from py_driver.inspecting.triton_code import DIRECTORY, INDEX, library_of_triton
from py_driver.matrix.backends import version_of
from py_driver.matrix.configurations import is_identifier, parse
from py_driver.plan.metadata import METADATA, SLICE
from py_driver.plan.project import MANIFEST
from py_driver.publishing.wheel_check import find_wheels
from py_driver.system.elf import Elf, MalformedError, mapped
from py_driver.system.files import is_directory, is_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Result = TypeVar("Result")

_LIBRARY: Final = ".so"
_MALFORMED: Final = (ValueError, LookupError, TypeError, RecursionError)
"""What an index that is no index of Triton's code, or code that is cut off, makes of reading it."""

_HELP: Final = "name a whole shared library for 64-bit Linux"


class Measured(NamedTuple):
    """A library and where its bytes are.

    Attributes:
        name: its path; of a wheel's the path in the wheel after the wheel's own.
        library: where its bytes are.
        packed: its bytes in the wheel, which is compressed; None outside of one.
        content: its bytes, of a wheel's; those of others stay in their files.
        is_elf: whether it is one file; what Triton has compiled is a directory.
    """

    name: str
    library: Library
    packed: int | None = None
    content: bytes | None = None
    is_elf: bool = True

    @property
    def cuda(self) -> str:
        """The CUDA release that it is for, as the directory of its variant says; empty if there is none."""
        variant = PurePath(self.name).parent.name
        return (version_of(parse(variant).backend) or "") if is_identifier(variant) else ""

    def opened(self, read: Callable[[Elf], Result]) -> Result:
        """What a function makes of the library's bytes.

        Args:
            read: the function.

        Raises:
            DriverError: FILE_KIND or PERMISSION if the file is not there any more.
        """
        if self.content is not None:
            return read(Elf(self.content))
        try:
            with mapped(Path(self.name)) as elf:
                return read(elf)
        except (MalformedError, OSError) as problem:
            raise DriverError([_unreadable(self.name, problem)]) from None


def measured(paths: Sequence[Path], *, slices: bool = False) -> list[Measured]:
    """The libraries that paths mean, measured.

    Args:
        paths: of projects, whose built variants are meant; of libraries; of wheels; of directories of these.
        slices: whether the slices of projects are meant, too.

    Raises:
        DriverError: FILE_MISSING for each path without a library; FILE_KIND for each file that cannot be read.
    """
    wrong: list[Diagnostic] = []
    found: list[Measured] = []
    missing = [path for path in paths if is_file(path / MANIFEST) and not is_directory(path / BUILD)]
    wrong += [
        Diagnostic(Code.FILE_MISSING, f"{path} has no built variants", help=f"build it first: driver build {path}")
        for path in missing
    ]
    projects = [path for path in paths if path not in missing and is_file(path / MANIFEST)]
    if slices:
        wrong += [
            Diagnostic(
                Code.FILE_MISSING, f"{path} has no slices", help=f"build them first: driver build {path} --slice"
            )
            for path in projects
            if not is_directory(path / SLICES)
        ]
    kinds = [BUILD, *([SLICES] if slices else [])]
    places = [
        directory
        for path in paths
        if path not in missing
        for directory in ([path / kind for kind in kinds if is_directory(path / kind)] if path in projects else [path])
    ]
    wheels, others = find_wheels(places)
    for path in others:
        try:
            ahead = [*_of_triton(path)]
            libraries = [] if ahead and not any(path.rglob(f"*{_LIBRARY}")) else find_libraries([path])
        except DriverError as failure:
            wrong += failure.diagnostics
            continue
        found += ahead
        for library in libraries:
            try:
                with mapped(library) as elf:
                    own = library_of(elf)._replace(slice=_slice(read_metadata(library.parent)))
                    found.append(Measured(str(library), own))
            except (MalformedError, OSError) as problem:
                wrong.append(_unreadable(str(library), problem))
    for wheel in wheels:
        try:
            found += _of_wheel(wheel)
        except DriverError as failure:
            wrong += failure.diagnostics
    if wrong:
        raise DriverError(wrong)
    return found


def _of_triton(path: Path) -> Iterator[Measured]:
    """What Triton has compiled for the variants below a directory.

    Raises:
        DriverError: FILE_KIND if a file of it is malformed; PERMISSION.
    """
    own = [path / INDEX] if path.name == DIRECTORY and is_file(path / INDEX) else []
    for index in own or (sorted(path.rglob(f"{DIRECTORY}/{INDEX}")) if is_directory(path) else ()):
        directory = index.parent
        try:
            files = {file.name: file.read_bytes() for file in directory.iterdir() if is_file(file)}
            yield Measured(str(directory), library_of_triton(files), is_elf=False)
        except (*_MALFORMED, OSError) as problem:
            raise DriverError([_unreadable(str(directory), problem)]) from None


def _of_wheel(path: Path) -> Iterator[Measured]:
    """The libraries of a wheel.

    Raises:
        DriverError: FILE_KIND if it is no wheel, or a library in it cannot be read; FILE_MISSING if it has none.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            stated = {
                str(PurePosixPath(name).parent): _slice(as_object(archive.read(name)))
                for name in archive.namelist()
                if name.endswith(f"/{METADATA}")
            }
            found = [
                (member, archive.read(member), stated.get(str(PurePosixPath(member.filename).parent), ""))
                for member in archive.infolist()
                if member.filename.endswith(_LIBRARY)
            ]
            ahead = {
                index.parent: [
                    member for member in archive.infolist() if PurePosixPath(member.filename).parent == index.parent
                ]
                for index in map(PurePosixPath, archive.namelist())
                if index.parts[-2:] == (DIRECTORY, INDEX)
            }
            triton = {
                directory: (
                    {PurePosixPath(member.filename).name: archive.read(member) for member in members},
                    sum(member.compress_size for member in members),
                )
                for directory, members in ahead.items()
            }
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as problem:
        message = f"{path} cannot be read as a wheel: {problem}"
        raise DriverError([Diagnostic(Code.FILE_KIND, message)]) from None
    for directory, (files, packed) in triton.items():
        name = f"{path}/{directory}"
        try:
            yield Measured(name, library_of_triton(files), packed, is_elf=False)
        except _MALFORMED as problem:
            raise DriverError([_unreadable(name, problem)]) from None
    if not found and not triton:
        advice = "a wheel of Python files alone has no library to measure"
        raise DriverError([Diagnostic(Code.FILE_MISSING, f"{path} holds no shared library", help=advice)])
    for member, content, part in found:
        name = f"{path}/{member.filename}"
        try:
            yield Measured(name, library_of(Elf(content))._replace(slice=part), member.compress_size, content)
        except MalformedError as problem:
            raise DriverError([_unreadable(name, problem)]) from None


def _slice(metadata: Mapping[str, Any] | None) -> str:
    """The capability of the slice that a metadata.json is of; empty if of none."""
    part = (metadata or {}).get(SLICE, "")
    return part if isinstance(part, str) else ""


def _unreadable(name: str, problem: Exception) -> Diagnostic:
    """The error that a library cannot be read."""
    if isinstance(problem, OSError):
        return Diagnostic(Code.PERMISSION, f"cannot read {name}: {problem.strerror}")
    return Diagnostic(Code.FILE_KIND, f"{name} cannot be read: truncated or malformed: {problem}", help=_HELP)
