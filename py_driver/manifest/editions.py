"""The edition of a build.toml: from `edition`, or from keys that only some editions have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py_driver.errors import Code
from py_driver.manifest.model import CURRENT, NEWEST
from py_driver.manifest.section import kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.manifest.locate import KeyPath
    from py_driver.manifest.section import Findings

_MARKS: tuple[tuple[tuple[str, ...], type, int], ...] = (
    (("torch", "name"), object, 0),
    (("torch", "pyroot"), object, 0),
    (("kernel", "*", "capabilities"), object, 0),
    (("general", "kernel-depends"), object, CURRENT),
    (("general", "tpu"), object, CURRENT),
    (("torch", "stable-abi"), dict, CURRENT),
    (("torch-noarch",), object, 4),
    (("torch", "stable-abi"), object, 4),
    (("torch", "cxx-flags"), object, 4),
    (("tvm-ffi", "cxx-flags"), object, 4),
    (("general", "source"), object, 4),
    (("general", "version"), int, 4),
    (("general", "license"), object, 3),
    (("general", "backends"), object, 3),
    (("tvm-ffi",), object, 3),
    (("general", "cuda"), object, 3),
    (("kernel", "*", "backend"), object, 2),
    (("general", "universal"), object, 2),
    (("general", "cuda-minver"), object, 2),
    (("general", "cuda-maxver"), object, 2),
    (("general", "hub"), object, 2),
    (("general", "python-depends"), object, 2),
    (("torch", "minver"), object, 2),
    (("torch", "maxver"), object, 2),
    (("general", "version"), str, 0),
)
"""Keys that determine the edition of a file without `edition`, the strongest first: path, type of the value, edition.

A string as `version` is the weakest: in a file with a key of a later edition, the number was quoted by mistake.
"""


_SECTION_KEYS = ((CURRENT, "backend", "language"), (NEWEST, "language", "backend"))
"""The key that each section has in an edition, and its counterpart in the other."""


def edition_of(values: dict[str, Any], findings: Findings) -> int | None:
    """The edition of a build.toml.

    Upstream has `edition` from edition 5 on. A file without it has the edition of its keys; a file of edition 4 that
    lacks the required `version` or `license` counts as edition 3.

    Args:
        values: the file.
        findings: gets the reason, and EDITION or WRONG_TYPE for an invalid `edition`.

    Returns:
        0 to NEWEST; None if an error was collected.
    """
    general = values.get("general")
    if isinstance(general, dict) and "edition" in general:
        edition = _stated(general["edition"], findings)
        return None if edition is not None and _is_of_another(edition, values, findings) else edition
    edition, path = next(_marks(values), (1, ()))
    if edition == 4 and path == ("general", "version") and isinstance(general, dict) and "license" not in general:  # noqa: PLR2004  (an edition)
        edition = 3
    if edition == CURRENT:
        message = "this is edition 5, but [general] lacks `edition`"
        label = "a key of edition 5 only"
        findings.add(
            Code.MISSING_KEY, message, findings.key(path), label=label, advice="add `edition = 5` to [general]"
        )
        return None
    span = findings.key(path) if path else None
    findings.reason = f"see `{path[-1]}` in line {span.line}" if span else "no key belongs to a later edition"
    return edition


def _stated(edition: object, findings: Findings) -> int | None:
    """The edition that `edition` states, if it exists."""
    span = findings.value(("general", "edition"))
    if not isinstance(edition, int) or isinstance(edition, bool):
        findings.add(Code.WRONG_TYPE, f"`edition` in [general] must be an integer, not {kind(edition)}", span)
    elif CURRENT <= edition <= NEWEST:
        findings.reason = f"see `edition` in line {span.line}"
        return edition
    elif edition > NEWEST:
        advice = f"this driver reads editions 0 to {NEWEST}"
        findings.add(Code.EDITION, f"unknown edition {edition} of build.toml", span, advice=advice)
    else:
        message = f"`edition` can only be {CURRENT} or {NEWEST}: the earlier editions do not have this key"
        advice = f"remove the line if the file has edition {edition}"
        findings.add(Code.EDITION, message, span, advice=advice)
    return None


def _is_of_another(edition: int, values: dict[str, Any], findings: Findings) -> bool:
    """Whether all kernel sections are written for another edition than the stated one; collects one error if so.

    Args:
        edition: the stated edition.
        values: the file.
        findings: gets EDITION.
    """
    tables = [value for _, value in _matches(values, ("kernel", "*")) if isinstance(value, dict)]
    for known, key, other in _SECTION_KEYS:
        if edition != known and tables and all(key in table and other not in table for table in tables):
            message = f"edition {edition} is stated, but all [kernel.*] sections have `{key}`, as in edition {known}"
            span = findings.value(("general", "edition"))
            findings.add(Code.EDITION, message, span, advice=f"write `edition = {known}`, or `{other}` in each section")
            return True
    return False


def _marks(values: dict[str, Any]) -> Iterator[tuple[int, KeyPath]]:
    """The editions that keys indicate, the strongest first, each with the path of its key."""
    for pattern, value_type, edition in _MARKS:
        for path, value in _matches(values, pattern):
            if isinstance(value, value_type):
                yield edition, path


def _matches(value: object, pattern: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    """The paths that a pattern matches, with their values; `*` stands for any key."""
    if not pattern:
        yield (), value
    elif isinstance(value, dict):
        for key in value if pattern[0] == "*" else (pattern[0],):
            if key in value:
                yield from (((key, *path), found) for path, found in _matches(value[key], pattern[1:]))
