"""A policy file: who has to have rebuilt a kernel before it is loaded."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rules_torch_kernels.statements import StatementError, fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SCHEMA: Final = 1
_KEYS: Final = ("schema", "require", "max-age-days", "statements", "builders")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_DAYS: Final = 100_000


class PolicyError(ValueError):
    """A policy file is wrong; the message says how, in one line."""


class Policy(NamedTuple):
    """Whose statements are asked for.

    Attributes:
        builders: the public key of each, PEM, by their names.
        require: how many of them have to have rebuilt the same bytes.
        max_age_days: how old their statements may be; None for any age.
        statements: directories with statements, besides what is published with the kernel.
    """

    builders: Mapping[str, bytes]
    require: int
    max_age_days: int | None = None
    statements: tuple[Path, ...] = ()


def read_policy(path: Path) -> Policy:
    """Read a policy and the keys that it names; their paths are relative to its directory.

    Raises:
        PolicyError: it cannot be read, or is wrong.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as wrong:
        raise PolicyError(f"{path} cannot be read: {wrong}") from None
    try:
        return _policy(table, path.parent)
    except PolicyError as wrong:
        raise PolicyError(f"{path}: {wrong}") from None


def _policy(table: Mapping[str, Any], beside: Path) -> Policy:
    if unknown := [key for key in table if key not in _KEYS]:
        raise PolicyError(f"unknown key `{unknown[0]}`; the keys are {', '.join(_KEYS)}")
    if table.get("schema") != _SCHEMA:
        raise PolicyError(f"`schema` is not {_SCHEMA}, which this version reads")
    builders = _builders(table.get("builders"), beside)
    require = _number(table, "require", len(builders))
    if require is None:
        raise PolicyError(f"`require` is missing: how many of the builders have to confirm, 1 to {len(builders)}")
    places = table.get("statements", [])
    if not isinstance(places, list) or not all(isinstance(path, str) for path in places):
        raise PolicyError("`statements` is not a list of directories")
    statements = tuple(beside / path for path in places)
    if missing := [path for path in statements if not path.is_dir()]:
        raise PolicyError(f"`statements` names {missing[0]}, which is no directory")
    return Policy(builders, require, _number(table, "max-age-days", _DAYS), statements)


def _builders(table: object, beside: Path) -> dict[str, bytes]:
    """The keys of builders by their names, each key once."""
    if not isinstance(table, dict) or not table:
        raise PolicyError('`[builders]` is missing; it has a line for each builder: name = "path of the public key"')
    builders, names = dict[str, bytes](), dict[str, str]()
    for name, file in table.items():
        if not isinstance(file, str) or not _NAME.fullmatch(name):
            raise PolicyError(f"the builder `{name}` is no short name with the path of a public key")
        key = _key(name, beside / file)
        digest = fingerprint(key)
        if digest in names:
            raise PolicyError(f"{names[digest]} and {name} have the same key, which would count twice")
        names[digest], builders[name] = name, key
    return builders


def _key(name: str, path: Path) -> bytes:
    try:
        key = path.read_bytes()
        fingerprint(key)
    except OSError as wrong:
        raise PolicyError(f"the key of {name} cannot be read: {wrong}") from None
    except StatementError as wrong:
        raise PolicyError(f"the key of {name} {wrong}") from None
    return key


def _number(table: Mapping[str, Any], key: str, most: int) -> int | None:
    value = table.get(key)
    if value is not None and (type(value) is not int or not 1 <= value <= most):
        raise PolicyError(f"`{key}` is not a number from 1 to {most}")
    return value
