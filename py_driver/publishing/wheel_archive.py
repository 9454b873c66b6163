"""The archive of a wheel: its RECORD, and a zip file without times.

Formats: binary distribution format of the Python packaging specifications; platform tag PEP 600.
"""

from __future__ import annotations

import base64
import csv
import io
import os
import shutil
import zipfile
from typing import TYPE_CHECKING, Final

from py_driver import __version__
from py_driver.publishing.release import make_file
from py_driver.system.files import replacing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path
    from typing import IO

    from py_driver.publishing.release import File

PLATFORM: Final = "manylinux_2_28"
"""The platform of all compiled code, without the CPU: the sysroot has glibc 2.28."""

STABLE_ABI: Final = "cp39-abi3"
"""Python and ABI tag of code for Python's stable ABI of 3.9, as the ABI check requires it."""

GENERATOR: Final = f"rules_torch_kernels ({__version__})"
"""The generator in WHEEL."""

RECORD: Final = "RECORD"

_FIRST_DAY: Final = (1980, 1, 1, 0, 0, 0)
_ALL: Final = 0o100644
_RUN: Final = 0o100755


def write_wheel(files: Mapping[str, File], info: str, target: Path, executable: Collection[str] = ()) -> None:
    """Write a wheel with its RECORD, as its last file; equal files in the same order give equal bytes.

    Args:
        files: all files except RECORD, by their paths in the wheel.
        info: its `.dist-info` directory.
        target: the file.
        executable: the paths of executable files, besides libraries.

    Raises:
        OSError: it cannot be written.
    """
    own = f"{info}/{RECORD}"
    every = {**files, own: make_file(own, _record(files, own))}
    with replacing(target) as file:
        _zip(every, file, executable)
        os.fchmod(file.fileno(), _ALL & 0o777)


def digest_of(sha256: str) -> str:
    """A hexadecimal SHA-256 in the form of RECORD."""
    return "sha256=" + base64.urlsafe_b64encode(bytes.fromhex(sha256)).rstrip(b"=").decode()


def _record(files: Mapping[str, File], own: str) -> bytes:
    """The text of RECORD, with its own line last; CSV, since names may have commas and quotes."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerows([name, digest_of(file.sha256), file.size] for name, file in files.items())
    rows.writerow([own, "", ""])
    return text.getvalue().encode()


def _zip(files: Mapping[str, File], to: IO[bytes], executable: Collection[str]) -> None:
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in files.items():
            entry = zipfile.ZipInfo(name, _FIRST_DAY)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (_RUN if name.endswith(".so") or name in executable else _ALL) << 16
            entry.file_size = file.size
            with archive.open(entry, "w") as part:
                if isinstance(file.content, bytes):
                    part.write(file.content)
                else:
                    with file.content.open("rb") as source:
                        shutil.copyfileobj(source, part)
