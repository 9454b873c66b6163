"""The wheel that a setup.py made, with an empty file for each library.

Format: binary distribution format of the Python packaging specifications.
"""

from __future__ import annotations

import stat
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error
from py_driver.fetch.wheel_members import BROKEN_ZIP
from py_driver.publishing.wheel_archive import RECORD

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from py_driver.publishing.release import File
    from py_driver.recording.record import Record

INFO: Final = ".dist-info"
"""The suffix of a wheel's metadata directory."""

DATA: Final = ".data"
"""The suffix of the directory of files that are installed elsewhere."""

METADATA: Final = "METADATA"
LIBRARY: Final = ".so"

_SIGNATURES: Final = ("RECORD.jws", "RECORD.p7s")
_COMPONENTS: Final = 5
"""The number of parts of a wheel's file name without a build number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Skeleton:
    """The files of a wheel.

    Attributes:
        name: its name and version, as in its file name.
        stem: name and version as in its `.dist-info` directory.
        tags: the rest of its file name: a build number if there is one, Python, ABI, platform.
        files: contents, by path, without RECORD and its signatures.
        executable: the paths of executable files.
    """

    name: str
    stem: str
    tags: tuple[str, ...]
    files: Mapping[str, bytes]
    executable: frozenset[str]


def read_skeleton(path: Path) -> Skeleton:
    """Read the wheel that setup.py made.

    Raises:
        DriverError: FILE_KIND if it is not a wheel; UNSUPPORTED if it has links.
    """
    parts = tuple(path.name.removesuffix(".whl").split("-"))
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            contents = {member.filename: archive.read(member) for member in members}
    except (OSError, *BROKEN_ZIP) as wrong:
        raise error(Code.FILE_KIND, f"{path} cannot be read as a wheel: {wrong}") from None
    stems = {top.removesuffix(INFO) for name in contents if (top := name.partition("/")[0]).endswith(INFO)}
    if len(parts) < _COMPONENTS or len(stems) != 1 or f"{(stem := min(stems))}{INFO}/{METADATA}" not in contents:
        raise error(Code.FILE_KIND, f"{path} is not a wheel: it has no {INFO} directory of its own")
    modes = {member.filename: member.external_attr >> 16 for member in members}
    if links := sorted(name for name, mode in modes.items() if stat.S_ISLNK(mode)):
        raise error(Code.UNSUPPORTED, f"the wheel of setup.py has symbolic links: {', '.join(links)}")
    dropped = {f"{stem}{INFO}/{name}" for name in (RECORD, *_SIGNATURES)}
    return Skeleton(
        name="-".join(parts[:2]),
        stem=stem,
        tags=parts[2:],
        files={name: content for name, content in contents.items() if name not in dropped},
        executable=frozenset(name for name, mode in modes.items() if mode & 0o111),
    )


def check_libraries(record: Record, skeleton: Skeleton) -> None:
    """Check that the only empty libraries are the modules' own, which the build makes.

    Raises:
        DriverError: UNSUPPORTED.
    """
    wanted = {module.file: module.name for module in record.modules}
    for file, name in wanted.items():
        if file not in skeleton.files:
            advice = "let setup.py put the library there, as `build_ext` does"
            raise error(Code.UNSUPPORTED, f"the wheel of setup.py has no {file}, the library of `{name}`", help=advice)
    for file, content in skeleton.files.items():
        if not content and file.endswith(LIBRARY) and file not in wanted:
            advice = "list it in `ext_modules`, and do not copy libraries after `build_ext`"
            message = f"{file} in the wheel of setup.py is not the library of a module, and nothing builds it"
            raise error(Code.UNSUPPORTED, message, help=advice)


def ordered(files: Mapping[str, File], info: str) -> dict[str, File]:
    """The files of a wheel, sorted, with `.dist-info` last, as the format recommends."""
    return {path: files[path] for path in sorted(files, key=lambda path: (path.startswith(f"{info}/"), path))}
