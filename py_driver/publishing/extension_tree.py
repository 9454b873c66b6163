"""A built project with a setup.py: its wheel, and the wheel as installed."""

from __future__ import annotations

import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from py_driver.building.collect import collect
from py_driver.building.selection import archives
from py_driver.building.variant_dir import read_metadata
from py_driver.errors import DriverError
from py_driver.extensions.binding import way_of
from py_driver.plan.metadata import chosen
from py_driver.plan.projects import SCRIPTS
from py_driver.publishing.extension_wheel import ExtensionWheel, make_extension_wheel
from py_driver.publishing.git import sources
from py_driver.publishing.merged_wheel import make_merged_wheel
from py_driver.publishing.provenance import Sources
from py_driver.system.files import is_file, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from py_driver.building.extension import BuiltExtension
    from py_driver.fetch.entry import Entry
    from py_driver.matrix.releases import Releases

_IMPORTABLE: Final = ("purelib", "platlib")
"""The schemes of a `.data` directory that Python imports from; programs and headers are installed elsewhere."""


def pack(
    part: BuiltExtension, releases: Releases, source: Entry | None, directory: Path, *, labelled: bool = False
) -> Path:
    """Write the wheel of a built variant; returns its path.

    Args:
        part: the built variant.
        releases: the releases that it was built for.
        source: the source archive, if the project is from the package index.
        directory: the directory of the wheel.
        labelled: whether to write a wheel variant; see `make_extension_wheel`.

    Raises:
        DriverError: what `make_extension_wheel` raises; NO_SPACE or PERMISSION.
    """
    with writing(directory):
        return make_extension_wheel(_wheel_of(part, releases, source), directory, labelled=labelled)


def pack_merged(
    parts: Sequence[BuiltExtension], releases: Releases, source: Entry | None, directory: Path
) -> list[Path]:
    """Write one wheel of all built variants, or one for each Python that they are built for; returns the paths.

    Args:
        parts: the built variants.
        releases: the releases that they were built for.
        source: the source archive, if the project is from the package index.
        directory: the directory of the wheels.

    Raises:
        DriverError: what `make_merged_wheel` raises; NO_SPACE or PERMISSION.
    """
    pythons = dict.fromkeys(part.python for part in parts if part.python)
    paths = []
    for python in pythons or [None]:
        wheels = [_wheel_of(part, releases, source) for part in parts if part.python in {None, python}]
        with writing(directory):
            paths.append(make_merged_wheel(wheels, directory))
    return paths


def _wheel_of(part: BuiltExtension, releases: Releases, source: Entry | None) -> ExtensionWheel:
    """The parts of a variant's wheel."""
    variants = [(plan, built.variant) for plan, built in part.parts]
    entries = [entry for plan, variant in variants for entry in archives(plan, [variant], releases.lock, read=True)]
    files = {module.name: module.file for module in part.record.modules}
    return ExtensionWheel(
        record=part.record,
        skeleton=part.configured.recording.wheel,
        modules={module.file: part.files(module.name) for module in part.record.modules},
        source=source or _committed(part),
        archives=tuple({entry.key: entry for entry in entries}.values()),
        python=part.python,
        choices=chosen(read_metadata(part.modules[0].path) or {}) if part.modules else {},
        bindings={built.variant.module: way for _, built in part.parts if (way := way_of(built.variant))},
        archs={files[variant.module]: variant.metadata["backend"].get("archs", ()) for _, variant in variants},
    )


def _committed(part: BuiltExtension) -> Sources:
    """The state in git of the files that a variant was built from; empty if git cannot report it."""
    files = {name for plan, _ in part.parts for name in plan.files if name not in plan.generated}
    scripts = [name for name in SCRIPTS if is_file(part.directory / name)]
    with suppress(DriverError):
        return sources(part.directory, [*scripts, *sorted(files)])[0]
    return Sources()


def lay_out(wheel: Path, build: Path, variant: str) -> tuple[Path, int]:
    """Unpack a wheel into a directory of variants, so that the directory can be put on `PYTHONPATH`.

    Args:
        wheel: the file, which the driver has written.
        build: where to, under the variant's name.
        variant: its identifier.

    Returns:
        The directory of the variant, and the size of its files in bytes.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    with tempfile.TemporaryDirectory(prefix="driver-") as scratch, writing(build):
        with zipfile.ZipFile(wheel) as archive:
            for name, path in _installed(archive.namelist()):
                target = Path(scratch, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
        return collect(Path(scratch), build, variant)


def _installed(names: list[str]) -> Iterator[tuple[str, str]]:
    """The files of a wheel that are imported, each with its path when installed."""
    for name in names:
        first, *rest = PurePosixPath(name).parts
        if name.endswith("/"):
            continue
        if not first.endswith(".data"):
            yield name, name
        elif rest and rest[0] in _IMPORTABLE:
            yield name, "/".join(rest[1:])
