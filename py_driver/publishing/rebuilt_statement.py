"""A rebuilder's statement that a rebuilt variant was identical, byte for byte. Pure.

The predicate is our own: SLSA's verification summary has a policy and levels, and does not record how an artifact was
rebuilt. `rules_torch_kernels.statements` wraps it in a statement, with the signer and the time.
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
"""The directory of signed statements, in a project and in a repository: it has a directory for each variant."""

SUFFIX: Final = ".sigstore.json"
"""The suffix of their file names."""


class About(NamedTuple):
    """The project in a statement.

    Attributes:
        repository: `owner/name` of the repository with its variants.
        version: the version of the kernel.
        sources: the state of its sources in git.
    """

    repository: str
    version: int
    sources: Sources


class Same(NamedTuple):
    """A variant whose rebuilt files were identical.

    Attributes:
        about: its project.
        variant: its identifier.
        id: the id of its build, from metadata.json.
        files: the SHA-256 of each file, in hexadecimal, by its path in a repository.
        archives: all archives that it was built from.
    """

    about: About
    variant: str
    id: str
    files: Mapping[str, str]
    archives: Iterable[Entry]

    @property
    def predicate(self) -> dict[str, Any]:
        """The predicate about the files."""
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
    """The path of a builder's signed statement about a variant, in a directory of statements.

    Args:
        variant: its identifier.
        builder: the fingerprint of the builder's key.
    """
    return f"{variant}/{builder[:16]}{SUFFIX}"


def files_stated(bundle: bytes) -> dict[str, str]:
    """The SHA-256 of each file in a signed statement; empty for any other file. The signature is not verified.

    Args:
        bundle: the content of a file in a directory of statements.
    """
    try:
        subjects = json.loads(base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"]))["subject"]
        return {str(subject["name"]): str(subject["digest"]["sha256"]) for subject in subjects}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
