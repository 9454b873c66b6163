"""The METADATA of a wheel, adapted to releases of torch and a backend: all other bytes stay.

Formats: core metadata, version specifiers and dependency specifiers of the Python packaging specifications.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from py_driver.errors import Code, error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.specifiers import Specifier

_TORCH: Final = "torch"
_REQUIRES: Final = "requires-dist"
_VERSION: Final = "version"
_PATCHES: Final = 64
"""The number of patch releases of a torch that are tried, more than will exist."""

_FIELD: Final = re.compile(rb"(?P<name>[A-Za-z][A-Za-z0-9-]*):[ \t]*(?P<value>[^\r\n]*(?:\r?\n[ \t][^\r\n]*)*)")


class Field(NamedTuple):
    """A field of METADATA.

    Attributes:
        name: the name in lower case.
        value: the value on one line.
        text: its bytes, without the final line break.
    """

    name: str
    value: str
    text: bytes


def fields(metadata: bytes) -> Iterator[Field]:
    """The fields of METADATA, in order; a line that is not a field has an empty name.

    Args:
        metadata: its bytes.
    """
    for text in re.split(rb"\r?\n(?![ \t])", _head(metadata)):
        found = _FIELD.match(text)
        value = found["value"].decode("utf-8", "surrogateescape") if found else ""
        yield Field(found["name"].decode().lower() if found else "", re.sub(r"\s*\n\s*", " ", value).strip(), text)


def _head(metadata: bytes) -> bytes:
    """The part before the description, without the line break at its end."""
    return re.split(rb"\r?\n(?=\r?\n|\Z)", metadata, maxsplit=1)[0]


def local_version(version: str, label: str) -> str:
    """A version with a label in its local part, after the project's own local part (PEP 440).

    Args:
        version: the version of the project.
        label: such as `cu130.torch213`.
    """
    return f"{version}{'.' if '+' in version else '+'}{label}"


def for_torch(metadata: bytes, label: str, *torches: str) -> bytes:
    """The METADATA of a wheel for some releases of torch: its version gets a label, and it requires these releases.

    Args:
        metadata: the project's METADATA.
        label: see `local_version`; empty for an unchanged version.
        torches: the releases, e.g. `2.13`; ascending.

    Raises:
        DriverError: UNSUPPORTED if the project does not accept a release.
    """
    head = _head(metadata)
    end = b"\r\n" if b"\r\n" in head else b"\n"
    lines: list[bytes] = []
    last = 0
    is_required = False
    for field in fields(metadata):
        text = field.text
        if field.name == _VERSION and label:
            text = _written(field, local_version(field.value, label))
        elif field.name == _REQUIRES and (narrowed := narrow(field.value, *torches)) is not None:
            text = _written(field, narrowed)
            if text in lines:
                continue
            is_required = True
        lines.append(text)
        if field.name == _REQUIRES:
            last = len(lines)
    if not is_required:
        lines.insert(last or len(lines), f"Requires-Dist: {_TORCH}{_any_of(torches)}".encode())
    return end.join(lines) + metadata[len(head) :]


def _any_of(torches: Sequence[str]) -> str:
    """A specifier of exactly these releases: `==2.13.*`, `>=2.13,<2.16,!=2.14.*`."""
    if len(torches) == 1:
        return f"=={torches[0]}.*"
    numbers = [tuple(map(int, torch.split("."))) for torch in torches]
    (major, first), (last_major, last) = min(numbers), max(numbers)
    between = range(first + 1, last) if major == last_major else ()
    missing = [f"!={major}.{minor}.*" for minor in between if (major, minor) not in numbers]
    return ",".join([f">={major}.{first}", f"<{last_major}.{last + 1}", *missing])


def _written(field: Field, value: str) -> bytes:
    """A field with another value."""
    name = field.text[: field.text.index(b":")]
    return name + b": " + value.encode("utf-8", "surrogateescape")


def narrow(requirement: str, *torches: str) -> str | None:
    """A requirement of torch, narrowed to some releases; None for another package or a conditional requirement.

    The project's clauses about patch releases stay: `torch>=2.1,!=2.13.1` becomes `torch!=2.13.1,==2.13.*`.

    Args:
        requirement: the requirement in METADATA.
        torches: the releases, e.g. `2.13`; ascending.

    Raises:
        DriverError: UNSUPPORTED if no version of a release satisfies the requirement.
    """
    try:
        wanted = Requirement(requirement)
    except InvalidRequirement:
        return None
    if canonicalize_name(wanted.name) != _TORCH or wanted.marker or wanted.url:
        return None
    releases = []
    for torch in torches:
        own = [*(Version(f"{torch}.{patch}") for patch in range(_PATCHES)), *_named(wanted.specifier, torch)]
        if not any(wanted.specifier.contains(release, prereleases=True) for release in own):
            message = f"the project requires `{requirement}`, which torch {torch} is not"
            raise error(Code.UNSUPPORTED, message, help="choose another torch with --torch, or change that requirement")
        releases += own
    kept = [
        part for part in wanted.specifier if not all(part.contains(release, prereleases=True) for release in releases)
    ]
    wanted.specifier = SpecifierSet(",".join([_any_of(torches), *map(str, kept)]))
    return str(wanted)


def _named(specifier: SpecifierSet, torch: str) -> Iterator[Version]:
    """The versions of a release that a specifier names, which may be local versions."""
    release = tuple(map(int, torch.split(".")))
    for part in specifier:
        version = _version_of(part)
        if version is not None and version.release[: len(release)] == release:
            yield version


def _version_of(part: Specifier) -> Version | None:
    try:
        return Version(part.version)
    except InvalidVersion:
        return None
