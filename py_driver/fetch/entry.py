"""Lock entries: the exact archive, and the required parts of it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from py_driver.errors import Code, DriverError, error

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Origin(Enum):
    """The origin of an archive that no mirror directory has."""

    PYTHON_INDEX = "python-index"
    DEBIAN = "debian"
    URL = "url"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A pinned archive of `toolchains/lock/*.json`.

    Attributes:
        name: project on the Python index, Debian package, or part of a vendor's tree.
        version: its version, as the origin spells it.
        filename: the archive's file name, or the package's path in a Debian archive (`pool/...`).
        size: the size of the archive in bytes; 0 if unknown, which only the origin `url` admits.
        sha256: the SHA-256 of the archive, in hexadecimal.
        origin: its origin.
        url: the address of the archive, if the origin is `url`.
        record_sha256: the SHA-256 of the wheel's RECORD, in hexadecimal, if only a part of its members is required.
        include: prefixes of the required members of a wheel with `record_sha256`.
        exclude: regular expressions; members that contain a match are skipped.
    """

    name: str
    version: str
    filename: str
    size: int
    sha256: str
    origin: Origin
    url: str = ""
    record_sha256: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def members_only(self) -> bool:
        """Whether only a part of the wheel's members is required."""
        return bool(self.record_sha256)

    @property
    def sdist(self) -> bool:
        """Whether it is a source archive of a Python package."""
        return self.origin is Origin.PYTHON_INDEX and self.filename.endswith(".tar.gz")

    @property
    def basename(self) -> str:
        """The file name without its directories."""
        return self.filename.rpartition("/")[2]

    @property
    def label(self) -> str:
        """Name and version, for messages."""
        return f"{self.name} {self.version}"

    @property
    def key(self) -> str:
        """Its key in the store: the archive's SHA-256, or a digest of the wheel's required members."""
        if not self.members_only:
            return self.sha256
        wanted = json.dumps([self.record_sha256, sorted(self.include), sorted(self.exclude)])
        return hashlib.sha256(wanted.encode()).hexdigest()

    @property
    def mirror_name(self) -> str:
        """Its file name in a mirror directory: the archive's own, or the name of the bundle of required members."""
        return f"{self.basename}.{self.key[:16]}.zip" if self.members_only else self.basename

    def wants(self, member: str) -> bool:
        """Whether a member of the wheel is required."""
        return member.startswith(self.include) and not any(re.search(pattern, member) for pattern in self.exclude)

    def to_json(self) -> dict[str, object]:
        """The entry in the form of a lock file."""
        value: dict[str, object] = {
            "name": self.name,
            "version": self.version,
            "filename": self.filename,
            **({"size": self.size} if self.size else {}),
            "sha256": self.sha256,
            "origin": self.origin.value,
            **({"url": self.url} if self.url else {}),
        }
        if self.members_only:
            value |= {
                "record_sha256": self.record_sha256,
                "include": list(self.include),
                "exclude": list(self.exclude),
            }
        return value


def parse_entry(value: Mapping[str, object]) -> Entry:
    """Read a lock entry; unknown keys are ignored.

    Raises:
        DriverError: a key is missing or its value has the wrong type (MISSING_KEY, BAD_VALUE).
    """
    name = _text(value, "name")
    try:
        origin = Origin(_text(value, "origin", name))
    except ValueError as wrong:
        raise _bad(name, "origin", f"one of {', '.join(o.value for o in Origin)}") from wrong
    size = value.get("size", 0 if origin is Origin.URL else None)
    if type(size) is not int or size < 0 or (size == 0 and "size" in value):
        raise _bad(name, "size", "a number of bytes")
    url = _text(value, "url", name) if origin is Origin.URL else ""
    if url and not url.startswith("https://"):
        raise _bad(name, "url", "an address that starts with https://")
    filename = _text(value, "filename", name)
    if filename.startswith("/") or ".." in filename.split("/"):
        raise _bad(name, "filename", "a relative path")
    entry = Entry(
        name=name,
        version=_text(value, "version", name),
        filename=filename,
        size=size,
        sha256=_digest(value, "sha256", name),
        origin=origin,
        url=url,
        record_sha256=_digest(value, "record_sha256", name) if value.get("record_sha256") else "",
        include=_texts(value, "include", name),
        exclude=_texts(value, "exclude", name),
    )
    for pattern in entry.exclude:
        try:
            re.compile(pattern)
        except re.error as wrong:
            raise _bad(name, "exclude", "a list of regular expressions") from wrong
    if entry.members_only and origin is not Origin.PYTHON_INDEX:
        raise _bad(name, "record_sha256", "that of a wheel from a Python index")
    if entry.members_only and not entry.include:
        raise _bad(name, "include", "a list of at least one prefix")
    return entry


def _bad(name: str, key: str, wanted: str) -> DriverError:
    return error(Code.BAD_VALUE, f"lock entry {name or '?'}: `{key}` must be {wanted}")


def _text(value: Mapping[str, object], key: str, name: str = "") -> str:
    if key not in value:
        raise error(Code.MISSING_KEY, f"lock entry {name or '?'}: `{key}` is missing")
    text = value[key]
    if not isinstance(text, str) or not text or "\0" in text:
        raise _bad(name, key, "a string that is not empty")
    return text


def _digest(value: Mapping[str, object], key: str, name: str) -> str:
    text = _text(value, key, name)
    if not _SHA256.fullmatch(text):
        raise _bad(name, key, "64 lower-case hexadecimal digits")
    return text


def _texts(value: Mapping[str, object], key: str, name: str) -> tuple[str, ...]:
    texts = value.get(key, ())
    if not isinstance(texts, list | tuple) or not all(isinstance(t, str) for t in texts):
        raise _bad(name, key, "a list of strings")
    return tuple(texts)
