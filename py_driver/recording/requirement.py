"""A release on the package index in pip's notation: `causal-conv1d==1.7.0 --hash=sha256:...`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from py_driver.errors import Code, error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.specifiers import SpecifierSet

_MEANT: Final = re.compile(
    r"\s*[A-Za-z0-9][\w.-]*\s*(\[[^\]]*\]\s*)?(\(?(===|[=~!<>]=|[<>])|@|\s--hash\b).*", re.DOTALL | re.ASCII
)
_SINGLE: Final = re.compile(r"([\w.-]+)\s*=\s*([^=\s]+)", re.ASCII)
"""A name and a version with one `=` between them."""

_HASH: Final = re.compile(r"(?:^|\s)--hash[=\s]\s*(\S+)")
_SHA256: Final = re.compile(r"sha256:([0-9a-f]{64})", re.IGNORECASE)
_EXACT: Final = ("==", "===")


class Wanted(NamedTuple):
    """A requirement of a project's release.

    Attributes:
        name: the normalized name of the project.
        specifier: the matching versions.
        hashes: the allowed SHA-256 of its archive, in hexadecimal; any if empty.
        text: the user's words, without the hashes.
    """

    name: str
    specifier: SpecifierSet
    hashes: frozenset[str]
    text: str

    @property
    def exact(self) -> bool:
        """Whether a single version matches, as with `==1.7.0`: then it may be a withdrawn one."""
        return any(part.operator in _EXACT and not part.version.endswith(".*") for part in self.specifier)


def looks_like_requirement(word: str) -> bool:
    """Whether a word has the form of a release on the package index: a name with a version, a digest or an address."""
    return _MEANT.fullmatch(word) is not None


def has_one_equals_sign(word: str) -> bool:
    """Whether a word is a name, one `=` and a version, which `parse_requirement` rejects with advice."""
    return _SINGLE.fullmatch(word) is not None


def parse_requirement(text: str, hashes: Iterable[str] = ()) -> Wanted:
    """Parse a requirement.

    Args:
        text: `NAME`, `NAME==VERSION`, `NAME>=VERSION,<VERSION`; options `--hash=sha256:...` may follow, as in a
            requirements file.
        hashes: further hashes: `sha256:...`.

    Raises:
        DriverError: USAGE if it is not a requirement; UNSUPPORTED if it is not a release on the index, or has parts
            that do not change the wheel.
    """
    found = _HASH.split(text)
    words = found[0].strip()
    if any(rest.strip() for rest in found[2::2]):
        raise error(Code.USAGE, f"`{text}` is not a requirement", help="write it as `NAME==VERSION --hash=sha256:...`")
    digests = frozenset(_digest(value) for value in (*found[1::2], *hashes))
    try:
        requirement = Requirement(words)
    except InvalidRequirement:
        single = _SINGLE.fullmatch(words)
        hint = f"did you mean `{single[1]}=={single[2]}`?" if single else ""
        advice = hint or "write it as `NAME==VERSION`, e.g. causal-conv1d==1.7.0"
        raise error(Code.USAGE, f"`{words}` is not a requirement", help=advice) from None
    if requirement.url:
        advice = "download and unpack it, and name the directory"
        raise error(Code.UNSUPPORTED, f"`{words}` is an address, not a release on the package index", help=advice)
    if requirement.extras:
        advice = "leave the extras out: `pip install` of the wheel accepts them"
        raise error(Code.UNSUPPORTED, f"`{words}`: a wheel is the same for all extras", help=advice)
    if requirement.marker:
        advice = "leave the marker out: the configurations are chosen by --torch, --backend and --cpu"
        raise error(Code.UNSUPPORTED, f"`{words}`: a marker does not choose what is built", help=advice)
    return Wanted(canonicalize_name(requirement.name), requirement.specifier, digests, words)


def _digest(value: str) -> str:
    """The digest in `sha256:...`, in pip's notation.

    Raises:
        DriverError: USAGE.
    """
    found = _SHA256.fullmatch(value)
    if found is None:
        advice = "write it as sha256: and 64 hexadecimal digits"
        raise error(Code.USAGE, f"`--hash={value}` is not a SHA-256", help=advice)
    return found[1].lower()
