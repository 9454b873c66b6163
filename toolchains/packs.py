"""Writes the headers of a toolchain as one file: python packs.py PACK ROOTS DIRECTORY...

An action gets this file alone, and rules/private/tools/compile/packs.zig, which documents the format, unpacks the
headers that a source reads. PACK is the file to write; names in it are relative to the working directory. ROOTS is a
JSON list of the directories in which compilers search. A repository rule runs this with the standard library alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path


def outermost(directories: list[str]) -> list[str]:
    """The directories that are not below another one."""
    return [one for one in directories if not any(one.startswith(f"{other}/") for other in directories)]


def files(directories: list[str]) -> list[str]:
    """The paths of all files below directories, sorted; links are followed, but not in cycles.

    Raises:
        ValueError: a name contains a line break.
    """
    found = []
    for directory in directories:
        for place, below, names in os.walk(directory, followlinks=True):
            if any(above.samefile(place) for above in Path(place).parents):
                below.clear()
                continue
            found += [f"{place}/{name}" for name in names if Path(place, name).is_file()]
    for path in found:
        if "\n" in path:
            raise ValueError(f"a line break in the name {path!r}")
    return sorted(found)


def write(pack: Path, roots: list[str], directories: list[str]) -> None:
    """Write a pack.

    Args:
        pack: the file to write.
        roots: the directories in which compilers search.
        directories: the directories with the headers.

    Raises:
        ValueError: see `files`.
        OSError: a file cannot be read or written.
    """
    directories = outermost(directories)
    paths = files(directories)
    lines = ["headers 1", *(f"directory {name}" for name in directories), *(f"root {root}" for root in roots)]
    lines += [f"{Path(path).stat().st_size} {path}" for path in paths]
    with pack.open("wb") as file:
        file.write("\n".join([*lines, "", ""]).encode())
        for path in paths:
            with Path(path).open("rb") as header:
                shutil.copyfileobj(header, file)


if __name__ == "__main__":
    write(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:])
