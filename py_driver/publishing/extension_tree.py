"""The wheel of a project with a setup.py as it is installed: what `driver build` puts into `build/`."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from py_driver.building.collect import collect
from py_driver.system.cache import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_IMPORTABLE: Final = ("purelib", "platlib")
"""The schemes of a `.data` directory that Python imports from; programs and headers are installed elsewhere."""


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
    with tempfile.TemporaryDirectory(prefix="driver-") as scratch, storage_errors(build):
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
