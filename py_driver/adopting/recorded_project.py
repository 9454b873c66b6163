"""A project with a setup.py: recorded for its default variants, and read for its kernel."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py_driver.adopting.adoption import Adoption, Input, adopt
from py_driver.building.build import Options
from py_driver.building.extension import plan_extension
from py_driver.errors import Code, error
from py_driver.extensions.binding import LIBRARY, Bindings
from py_driver.plan.project import MANIFEST
from py_driver.publishing.wheel_metadata import fields
from py_driver.system.files import is_file, reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.building.extension import Extension
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.recording.record import Record

_TESTS: Final = ("tests", "test")
_TEXTS: Final = ("README", "LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS", "CITATION")
_INFO: Final = ".dist-info"
_DATA: Final = ".data"
_LARGEST: Final = 4 << 20
"""The largest test file that is copied: larger files are models and data."""


def adopted(directory: Path, releases: Releases, output: Output, shown: str) -> Adoption:
    """Adopt a project with a setup.py.

    Args:
        directory: the directory of the project.
        releases: the releases to record it for: the default variants.
        output: where progress is shown.
        shown: the name of the project in messages.

    Raises:
        DriverError: UNSUPPORTED if it is a kernel already, or has no extension module; what `plan_extension` raises.
    """
    if is_file(directory / MANIFEST):
        message = f"{directory} has a {MANIFEST}: it is the project of a kernel already"
        raise error(Code.UNSUPPORTED, message, help=f"to adopt its setup.py, move {MANIFEST} away")
    # A kernel is for every Python, so modules that otherwise are bound by pybind11 are planned without it, with a loss.
    bindings = Bindings(LIBRARY, lambda _: ())
    extension = plan_extension(directory, (), releases, output, Options(), bindings, shown=shown)
    records: dict[str, list[Record]] = {}
    for configured in extension.configured:
        records.setdefault(configured.variant.configuration.family, []).append(configured.recording.record)
    records = {family: found for family, found in records.items() if found[0].modules}
    if not records:
        output.notes(extension.notes)
        message = f"the setup.py of {shown} has no extension module, so there is nothing to compile"
        raise error(
            Code.UNSUPPORTED, message, help="a kernel of Python files needs no setup.py: driver init --template triton"
        )
    output.notes(extension.notes)
    first = next(iter(records.values()))[0]
    installed, metadata = _installed(extension, first)
    with reading(directory):
        extras = dict(_extras(directory))
    return adopt(
        Input(
            records=dict(sorted(records.items())),
            plans=extension.plans,
            read=lambda path: _path(extension, path).read_bytes(),
            installed=installed,
            metadata=metadata,
            extras=extras,
            origin=f"{first.name} {first.version}",
        )
    )


def _path(extension: Extension, name: str) -> Path:
    """The path of a project's file."""
    created = (plan.generated[name] for plan in extension.plans if name in plan.generated)
    return next(created, extension.directory / name)


def _installed(extension: Extension, record: Record) -> tuple[dict[str, bytes], list[tuple[str, str]]]:
    """The installed files of a project, without its libraries, and the fields of its metadata."""
    [recording] = [configured.recording for configured in extension.configured if configured.recording.record is record]
    libraries = {module.file for module in record.modules}
    files: dict[str, bytes] = {}
    metadata: list[tuple[str, str]] = []
    with zipfile.ZipFile(recording.wheel) as archive:
        for name in archive.namelist():
            top = name.partition("/")[0]
            if top.endswith(_INFO):
                if name == f"{top}/METADATA":
                    metadata = [(field.name, field.value) for field in fields(archive.read(name))]
            elif not name.endswith("/") and name not in libraries and not top.endswith(_DATA):
                files[name] = archive.read(name)
    return files, metadata


def _extras(directory: Path) -> Iterator[tuple[str, bytes]]:
    """The texts about a project, and its tests, by path in the kernel."""
    for path in sorted(directory.iterdir()):
        if path.name.upper().startswith(_TEXTS) and is_file(path):
            yield path.name, path.read_bytes()
        elif path.name.startswith("test_") and path.suffix == ".py" and is_file(path):
            yield f"tests/{path.name}", path.read_bytes()
    for name in _TESTS:
        for parent, folders, files in os.walk(directory / name):
            folders[:] = sorted(folder for folder in folders if folder != "__pycache__" and not folder.startswith("."))
            for file in sorted(files):
                path = Path(parent, file)
                if is_file(path) and not path.is_symlink() and path.stat().st_size <= _LARGEST:
                    yield f"tests/{path.relative_to(directory / name).as_posix()}", path.read_bytes()
