"""Small wheels of Python files, for tests of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.publishing.release import make_file
from py_driver.publishing.wheel_archive import write_wheel

if TYPE_CHECKING:
    from pathlib import Path


def small_wheel(directory: Path, name: str, version: str, python: str = ">=3.9", more: str = "") -> Path:
    """Write a wheel whose module contains its version.

    Args:
        directory: the directory to write it to.
        name: the project's name, in the form of a file name.
        version: the version with its local part.
        python: `Requires-Python`.
        more: further lines of its metadata.
    """
    info = f"{name}-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    texts = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"{head}{f'Requires-Python: {python}' if python else 'Summary: any'}\n{more}\nText.\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = directory / f"{name}-{version}-py3-none-any.whl"
    write_wheel({path: make_file(path, text.encode()) for path, text in texts.items()}, info, path)
    return path
