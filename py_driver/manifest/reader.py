"""From the bytes of build.toml to the manifest: which edition it is, and all its errors at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py_driver.errors import Code, DriverError
from py_driver.manifest.edition5 import read_edition5
from py_driver.manifest.section import Findings, Section
from py_driver.manifest.seed import read_seed
from py_driver.manifest.text import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.manifest.model import Manifest

CURRENT = 5
"""The edition that upstream's kernel-builder writes."""


def read(content: bytes, file: str) -> Manifest:
    """Read a build.toml of the early form or of edition 5.

    Args:
        content: the bytes of the file.
        file: its path as the user knows it; it stands in every error.

    Returns:
        The manifest.

    Raises:
        DriverError: all that is wrong with the file, in its order: TOML_SYNTAX and TOML_LIMIT alone; EDITION alone;
            else any of UNKNOWN_KEY, MISSING_KEY, WRONG_TYPE, BAD_VALUE, BAD_NAME, UNSUPPORTED.
    """
    table, locations, source = parse(content, file)
    findings = Findings(locations, source.span(0, 1))
    root = Section(findings, (), table)
    general = table.get("general")
    if isinstance(general, dict) and isinstance(general.get("edition"), int) and general["edition"] == CURRENT:
        manifest = read_edition5(root, file)
    else:
        _refuse_other_editions(table, findings)
        manifest = read_seed(root, file)
    if diagnostics := findings.diagnostics():
        raise DriverError(diagnostics)
    return manifest


_UPDATE = "`kernel-builder update-build` writes edition 5"
_RENAME = "write it as edition 5"
_V0 = "the form of January 2025 (v0)"
_MARKS: tuple[tuple[tuple[str, ...], type, str, str], ...] = (
    (("torch", "name"), object, _V0, _RENAME),
    (("torch", "pyroot"), object, _V0, _RENAME),
    (("kernel", "*", "capabilities"), object, _V0, _RENAME),
    (("general", "version"), str, _V0, _RENAME),
    (("general", "version"), object, "edition 4", f"add `edition = 5`; {_UPDATE}"),
    (("torch-noarch",), object, "edition 4", f"add `edition = 5`; {_UPDATE}"),
    (("tvm-ffi",), object, "edition 4", f"add `edition = 5`; {_UPDATE}"),
    (("general", "backends"), object, "edition 3", f"add `version`, `license` and `edition = 5`; {_UPDATE}"),
    (("general", "license"), object, "edition 3", f"add `version`, `backends` and `edition = 5`; {_UPDATE}"),
    (("general", "universal"), object, "edition 2", _RENAME),
    (("general", "cuda-minver"), object, "edition 2", _RENAME),
    (("general", "cuda-maxver"), object, "edition 2", _RENAME),
    (("general", "hub"), object, "edition 2", _RENAME),
    (("general", "python-depends"), object, "edition 2", _RENAME),
    (("kernel", "*", "backend"), object, "edition 2", _RENAME),
)
"""Keys that a file without `edition` has in some edition only: path, type of the value, edition, advice."""


def _refuse_other_editions(table: dict[str, Any], findings: Findings) -> None:
    """Raise EDITION for a file that is neither the early form nor edition 5."""
    general = table.get("general")
    if isinstance(general, dict) and "edition" in general:
        path = ("general", "edition")
        if isinstance(general["edition"], int) and not isinstance(general["edition"], bool):
            message = f"edition {general['edition']} of build.toml is not supported"
            findings.add(Code.EDITION, message, findings.value(path), advice="5 is, and the early form, which has none")
        else:
            findings.add(Code.WRONG_TYPE, "`edition` in [general] must be an integer", findings.value(path))
    elif mark := _mark(table):
        where, looks, advice = mark
        message = f"this build.toml looks like {looks}, which is not read"
        findings.add(Code.EDITION, message, findings.key(where), label=f"a key of {looks}", advice=advice)
    if diagnostics := findings.diagnostics():
        raise DriverError(diagnostics)


def _mark(table: dict[str, Any]) -> tuple[tuple[str, ...], str, str] | None:
    """The first key that tells an unsupported edition, what the file looks like, and what to do."""
    for pattern, kind, looks, advice in _MARKS:
        for path, value in _matches(table, pattern):
            if isinstance(value, kind):
                return path, looks, advice
    return None


def _matches(value: object, pattern: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    """The paths that a pattern matches, with their values; `*` stands for any key."""
    if not pattern:
        yield (), value
    elif isinstance(value, dict):
        for key in value if pattern[0] == "*" else (pattern[0],):
            if key in value:
                yield from (((key, *path), found) for path, found in _matches(value[key], pattern[1:]))
