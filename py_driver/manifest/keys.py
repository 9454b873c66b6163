"""Declarations of keys and tables of build.toml, and patterns of values."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from py_driver.manifest.model import NEWEST


class Kind(Enum):
    """The type of a value, with its description in errors."""

    TEXT = "a string"
    TEXTS = "a list of strings"
    INTEGER = "a non-negative integer"
    BOOLEAN = "true or false"
    VERSION = 'a version in quotes, e.g. "12.8"'
    VERSIONS = 'a version in quotes, e.g. "2.9", or a table of versions by backend'
    TABLE = "a table"
    TABLES = "a list of tables"


class Key(NamedTuple):
    """A key of a table.

    Attributes:
        name: as it is written.
        kind: the type of its value.
        doc: what it means, in Markdown; one paragraph.
        since: the first edition that has it.
        until: the last edition that has it.
        required: the first edition that requires it; None for never.
        backends: in a kernel section: the backends whose sections have it; () for all.
        choices: the values that are allowed, for a TEXT, or for the elements of TEXTS; () for any.
        pattern: a regular expression for the complete value; "" for anything.
        noun: the name of a value in errors if it is none of `choices` ("backend"), or, with the article, if it does not
            match `pattern` ("a git URL"); "" if the reader checks it.
        example: a value, as TOML.
    """

    name: str
    kind: Kind
    doc: str
    since: int = 0
    until: int = NEWEST
    required: int | None = None
    backends: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    pattern: str = ""
    noun: str = ""
    example: str = ""

    def is_in(self, edition: int) -> bool:
        """Whether an edition has the key."""
        return self.since <= edition <= self.until

    def is_required(self, edition: int) -> bool:
        """Whether an edition requires the key."""
        return self.required is not None and self.required <= edition <= self.until

    @property
    def editions(self) -> str:
        """The editions that have the key, in words: `edition 1`, `editions 2 to 5`."""
        if self.since == self.until:
            return f"edition {self.since}"
        return f"editions {self.since} to {self.until}"

    @property
    def expected(self) -> str:
        """The expected value in an error, e.g. `a list of strings such as ["cpu", "cuda"]`."""
        if self.kind in {Kind.VERSION, Kind.VERSIONS} or not self.example:
            return self.kind.value
        return f"{self.kind.value}{' such as' if self.kind is Kind.TEXTS else ', e.g.'} {self.example}"


class Table(NamedTuple):
    """A table of build.toml.

    Attributes:
        path: its header; `*` stands for a name that the author chooses, "" for the file itself.
        doc: its purpose, in Markdown; one paragraph.
        keys: its keys.
    """

    path: str
    doc: str
    keys: tuple[Key, ...]

    def key(self, name: str, edition: int) -> Key | None:
        """The key with a name in an edition, or None."""
        return next((key for key in self.keys if key.name == name and key.is_in(edition)), None)


_HOST = r"([^\s/@\[\]]*@)?(\[[0-9A-Fa-f:.]+\](:[0-9]+)?|[^\s/?#\[\]]+)"
GIT_URL = rf"(https?|git|ssh|git\+(ssh|https?))://{_HOST}([/?#]\S*)?|[^@\s/:]+@[^:\s]+:\S+"
"""Upstream's pattern of a git repository's address; brackets in its host belong to an IPv6 address."""

REPO_ID = "[A-Za-z0-9_][A-Za-z0-9._-]{0,95}/[A-Za-z0-9_][A-Za-z0-9._-]{0,95}"
"""The Hub's pattern of a repository: owner and name."""

GIT_REF = r"[^\s~^:?*\[\\]+"
"""The valid characters of a branch, a tag or a commit in git."""

VERSION = r"[0-9]{1,6}(\.[0-9]{1,6}){0,7}"
"""The pattern of a version: at most eight integers separated by dots."""

EXTENSION = r"[A-Za-z0-9_]{1,16}(\.[A-Za-z0-9_]{1,16})*"
"""The pattern of an entry of `pyext`."""
