"""The sizes of libraries in projects, directories, wheels, or single files.

The directory with Triton's compiled code counts as a library.
"""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from py_driver.building.abi_check import find_libraries
from py_driver.building.variant_dir import BUILD, SLICES, as_object, read_metadata
from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.fetch.wheel_members import BROKEN_ZIP
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
"""The exceptions from reading a foreign index, or truncated code."""

_HELP: Final = "name a complete shared library for 64-bit Linux"


class Measured(NamedTuple):
    """A library and the division of its bytes.

    Attributes:
        name: its path; in a wheel, the wheel's path followed by the path in it.
        library: the division of its bytes.
        packed: its compressed bytes in the wheel; None outside of a wheel.
        content: its bytes, if it is in a wheel; other libraries' bytes stay in their files.
        is_elf: whether it is a file; Triton's compiled code is a directory.
    """

    name: str
    library: Library
    packed: int | None = None
    content: bytes | None = None
    is_elf: bool = True

    @property
    def cuda(self) -> str:
        """Its CUDA release, from the name of the variant's directory; empty without one."""
        variant = PurePath(self.name).parent.name
        return (version_of(parse(variant).backend) or "") if is_identifier(variant) else ""

    def opened(self, read: Callable[[Elf], Result]) -> Result:
        """Apply a function to the library's bytes.

        Args:
            read: the function.

        Raises:
            DriverError: FILE_KIND or PERMISSION if the file no longer exists.
        """
        if self.content is not None:
            return read(Elf(self.content))
        try:
            with mapped(Path(self.name)) as elf:
                return read(elf)
        except (MalformedError, OSError) as problem:
            raise DriverError([_unreadable(self.name, problem)]) from None


def measured(paths: Sequence[Path], *, slices: bool = False) -> list[Measured]:
    """The measured libraries of paths.

    Args:
        paths: projects with built variants, libraries, wheels, or directories of these.
        slices: whether to include the slices of projects.

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
    """Triton's compiled code of the variants below a directory.

    Raises:
        DriverError: FILE_KIND if a file is malformed; PERMISSION.
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
        DriverError: FILE_KIND if it is not a wheel, or a library in it cannot be read; FILE_MISSING if it has no
            library.
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
    except (OSError, *BROKEN_ZIP) as problem:
        message = f"{path} cannot be read as a wheel: {problem}"
        raise DriverError([Diagnostic(Code.FILE_KIND, message)]) from None
    for directory, (files, packed) in triton.items():
        name = f"{path}/{directory}"
        try:
            yield Measured(name, library_of_triton(files), packed, is_elf=False)
        except _MALFORMED as problem:
            raise DriverError([_unreadable(name, problem)]) from None
    if not found and not triton:
        advice = "a wheel with only Python files has no library to measure"
        raise DriverError([Diagnostic(Code.FILE_MISSING, f"{path} contains no shared library", help=advice)])
    for member, content, part in found:
        name = f"{path}/{member.filename}"
        try:
            yield Measured(name, library_of(Elf(content))._replace(slice=part), member.compress_size, content)
        except MalformedError as problem:
            raise DriverError([_unreadable(name, problem)]) from None


def _slice(metadata: Mapping[str, Any] | None) -> str:
    """The capability of a slice from its metadata.json; empty for a variant."""
    part = (metadata or {}).get(SLICE, "")
    return part if isinstance(part, str) else ""


def _unreadable(name: str, problem: Exception) -> Diagnostic:
    """The error for a library that cannot be read."""
    if isinstance(problem, OSError):
        return Diagnostic(Code.PERMISSION, f"cannot read {name}: {problem.strerror}")
    return Diagnostic(Code.FILE_KIND, f"{name} cannot be read: truncated or malformed: {problem}", help=_HELP)
