"""The driver's data files and templates, and how they are read."""

from __future__ import annotations

from pathlib import Path


def resource(name: str) -> str:
    """The text of a file of this package.

    Args:
        name: of the file, e.g. `codes.toml`.
    """
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def resources_below(name: str) -> list[str]:
    """The paths of all files below a directory of this package, relative to it, sorted.

    Not those that pip leaves beside each Python file when it installs the package.
    """
    root = Path(__file__).parent / name
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(file.as_posix() for file in files if "__pycache__" not in file.parts)
