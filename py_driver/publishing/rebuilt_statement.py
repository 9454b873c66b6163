"""What a rebuilder states of a variant that was built again, every byte the same. Pure.

The predicate is our own: SLSA's verification summary has a policy and levels, and does not say how something was
rebuilt.
`rules_torch_kernels.statements` makes a statement of it, and adds who states it and when.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver import __version__
from py_driver.building.made import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from py_driver.fetch.entry import Entry
    from py_driver.publishing.provenance import Sources

STATEMENTS: Final = "statements"
"""The directory of signed statements, in a project and in a repository: in it one for each variant."""

SUFFIX: Final = ".sigstore.json"
"""How the names of their files end."""


class About(NamedTuple):
    """What a statement names of a project.

    Attributes:
        repository: `owner/name`, where its variants are published.
        version: of the kernel.
        sources: what git says of them.
    """

    repository: str
    version: int
    sources: Sources


class Same(NamedTuple):
    """A variant that was built again, and was the same.

    Attributes:
        about: its project.
        variant: its identifier.
        id: of its build, as metadata.json has it.
        files: the SHA-256 of each file, in hexadecimal, by its path in a repository.
        archives: all that it was made from.
    """

    about: About
    variant: str
    id: str
    files: Mapping[str, str]
    archives: Iterable[Entry]

    @property
    def predicate(self) -> dict[str, Any]:
        """What is stated of the files."""
        return {
            "result": "same",
            "repository": self.about.repository,
            "version": self.about.version,
            "variant": self.variant,
            "id": self.id,
            "sources": {"digest": {"gitCommit": self.about.sources.commit}},
            "driver": {"rules_torch_kernels": __version__},
            "lock": {"digest": {"sha256": digest_of(self.archives)}},
        }


def statement_file(variant: str, builder: str) -> str:
    """The path of a builder's signed statement of a variant, in a directory of statements.

    Args:
        variant: its identifier.
        builder: the fingerprint of its key.
    """
    return f"{variant}/{builder[:16]}{SUFFIX}"


def files_stated(bundle: bytes) -> dict[str, str]:
    """The SHA-256 of each file that a signed statement is about; empty if it is none. Its signature is not looked at.

    Args:
        bundle: what a file of a directory of statements has.
    """
    try:
        subjects = json.loads(base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"]))["subject"]
        return {str(subject["name"]): str(subject["digest"]["sha256"]) for subject in subjects}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
