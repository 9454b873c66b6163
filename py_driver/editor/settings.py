"""Settings of editors for a project: clangd, VS Code, the schema of build.toml. Files of the user are never changed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from py_driver.manifest.schema import SCHEMA_ID, make_schema
from py_driver.resources import resource
from py_driver.system.files import is_file, reading, write, writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_WRITTEN: Final = "Written by `driver ide`, and written anew as long as this is the first line."
_CLANGD: Final = ".clangd"
_CODE_FILES: Final = ("extensions", "settings", "tasks")
"""VS Code's files; they are JSON with comments."""

_SCHEMA: Final = ".vscode/build-toml.schema.json"
"""The path of the schema of build.toml; the first line of the templates' build.toml names it."""

_DIAGNOSTIC: Final = {
    "owner": "driver",
    "fileLocation": ["autoDetect", "${workspaceFolder}"],
    "pattern": [
        {"regexp": r"^(error|warning)\[(E\d+)\]: (.*)$", "severity": 1, "code": 2, "message": 3},
        {"regexp": r"^ *--> (.+):(\d+):(\d+)$", "file": 1, "line": 2, "column": 3},
    ],
}
"""A problem matcher for the driver's own errors: `error[E101]: ...`, with the location on the next line."""

_COMPILER: Final = {
    "owner": "driver-compilers",
    "fileLocation": ["autoDetect", "${workspaceFolder}"],
    "pattern": {
        "regexp": r"^([^\s:][^:]*):(\d+):(?:(\d+):)? (?:fatal )?(error|warning|note): (.*)$",
        "file": 1,
        "line": 2,
        "column": 3,
        "severity": 4,
        "message": 5,
    },
}
"""A problem matcher for compilers' errors as the driver shows them, from clang and nvcc alike."""


def editor_files(extra_paths: Sequence[str], edition: int | None) -> dict[str, str]:
    """The settings of editors, by path in the project. Pure.

    Args:
        extra_paths: directories of Python packages, for completion.
        edition: the edition of build.toml; None for a project without one.
    """
    matchers = json.dumps([_DIAGNOSTIC, _COMPILER])[1:-1]
    files = {_CLANGD: f"# {_WRITTEN}\n{resource('editor/clangd.yaml')}"}
    for name in _CODE_FILES:
        text = resource(f"editor/{name}.json").replace("MATCHERS", matchers)
        text = text.replace("EXTRA_PATHS", json.dumps([*extra_paths])[1:-1])
        files[f".vscode/{name}.json"] = f"// {_WRITTEN}\n{text}"
    if edition is not None:
        files[_SCHEMA] = json.dumps(make_schema(edition), indent=1, ensure_ascii=False) + "\n"
    return files


def write_settings(directory: Path, files: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Write the settings that do not exist, or that the driver wrote.

    Args:
        directory: the directory of the project.
        files: see `editor_files`.

    Returns:
        The paths of up-to-date settings of the driver, and of the user's own settings, which stay unchanged.

    Raises:
        DriverError: NO_SPACE or PERMISSION.
    """
    own, users = [], []
    for path, text in files.items():
        file = directory / path
        if os.path.lexists(file) and not _is_own(file, text):
            users.append(path)
            continue
        own.append(path)
        if is_file(file) and file.read_bytes() == text.encode():
            continue
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        write(file, text.encode())
    return own, users


def _is_own(file: Path, text: str) -> bool:
    """Whether the driver wrote a file: by its first line, or by the name of the schema."""
    if not is_file(file):
        return False
    with reading(file):
        old = file.read_bytes()
    if text.startswith("{"):
        return f'"$id": "{SCHEMA_ID}'.encode() in old
    return old.startswith(text.partition("\n")[0].encode())
