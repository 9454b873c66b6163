"""Every key that build.toml declares is read: in each table of each edition, some value of it changes the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import pytest
import tomli

from py_driver.errors import DriverError, Span
from py_driver.manifest.keys import Key, Kind
from py_driver.manifest.model import NEWEST, NOARCH, TORCH, TVM_FFI, Located, Manifest
from py_driver.manifest.reader import read
from py_driver.manifest.tables import TABLES, table
from py_driver.matrix.backends import LANGUAGES

READ_AND_DROPPED = {
    ("kernel.*", "cargo-manifest"): "a section in Rust is refused, whatever its Cargo.toml",
}
"""Keys that the manifest does not have, each with the reason."""

OTHERS = {Kind.INTEGER: "7", Kind.TEXT: '"another"'}
"""Values besides the example of a key, as TOML: the file may have that, or mean it where the key is absent."""

Values = dict[str, Any]
"""A table of a build.toml, or all of it."""


class Place(NamedTuple):
    """A table in a file.

    Attributes:
        declared: the path of its declaration, e.g. `kernel.*`.
        path: where it stands.
        backend: that it is for; "" for all.
    """

    declared: str
    path: tuple[str | int, ...]
    backend: str = ""


def parsed(text: str) -> Any:  # noqa: ANN401  (any value of TOML)
    return tomli.loads(f"value = {text}")["value"]


def smallest(declared: str, edition: int) -> Values:
    """A table with the keys that it must have, and an entry of each list of tables."""
    keys = [key for key in table(declared).keys if key.is_in(edition)]
    needed = [key for key in keys if key.example and (key.is_required(edition) or key.kind is Kind.TABLES)]
    values: Values = {key.name: parsed(key.example) for key in needed}
    return values | ({"edition": edition} if "edition" in values else {})


def document(edition: int, framework: str) -> Values:
    """A file with every table that an edition has, but for other framework tables."""
    nested = [key.name for key in table("general").keys if key.kind is Kind.TABLE and key.is_in(edition)]
    general = {name: smallest(f"general.{name}", edition) for name in nested}
    section = smallest("kernel.*", edition)
    tags = [key for name in ("backend", "language") if (key := table("kernel.*").key(name, edition))]
    sections = {choice: {**section, tag.name: choice} for tag in tags for choice in tag.choices} or {"cuda": section}
    return {
        "general": {**smallest("general", edition), **general},
        framework: smallest(framework, edition),
        "kernel": sections,
    }


def places(path: tuple[str | int, ...], values: Values) -> Iterator[Place]:
    """All tables of a file."""
    declared = ".".join(map(str, path))
    if path[:1] == ("kernel",):
        if path[1:]:
            tag = str(values.get("backend", values.get("language", "cuda")))
            backend = "" if tag == "cuda-hipify" else LANGUAGES.get(tag, tag)
            yield Place("kernel.*", path, backend)
    else:
        yield Place(declared, path)
    for name, value in values.items():
        if isinstance(value, dict):
            yield from places((*path, name), value)
        elif name == "kernel-depends":
            yield Place(name, (*path, name, 0))


def changes(values: Values, place: Place, key: Key) -> Iterator[Values]:
    """A file without a key of a table, and with each of several values of it."""
    choices = [f'["{choice}"]' if key.kind is Kind.TEXTS else f'"{choice}"' for choice in key.choices]
    for text in ("", key.example, OTHERS.get(key.kind, ""), *choices):
        changed = deepcopy(values)
        inner: Any = changed
        for part in place.path:
            inner = inner[part]
        inner.pop(key.name, None)
        if text:
            inner[key.name] = parsed(text)
        yield changed


def toml(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {toml(inner)}' for key, inner in value.items())} }}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def manifest_of(values: Values) -> Manifest | None:
    """What a file says; None where it cannot be read at all."""
    text = "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in values.items())
    try:
        return read(text.encode(), "build.toml")[0]
    except DriverError:
        return None


def plain(value: object) -> object:
    """A value of the model without spans."""
    if isinstance(value, Located):
        return plain(value.value)
    if isinstance(value, tuple):
        return tuple(plain(inner) for inner in value if not isinstance(inner, Span))
    return {key: plain(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value


def is_read(values: Values, place: Place, key: Key) -> bool:
    """Whether some value of a key, or its absence, changes what a file says in its edition."""
    before = manifest_of(values)
    assert before
    for changed in changes(values, place, key):
        after = manifest_of(changed)
        same_edition = after is not None and after.edition == before.edition
        if plain(after) != plain(before) and (same_edition or key.name == "edition"):
            return True
    return False


@pytest.mark.parametrize("edition", range(NEWEST + 1))
@pytest.mark.parametrize("framework", [TORCH, NOARCH, TVM_FFI])
def test_every_declared_key_is_read(edition: int, framework: str) -> None:
    if not table("").key(framework, edition):
        return
    values = document(edition, framework)
    manifest = manifest_of(values)
    assert manifest
    assert manifest.edition == edition
    unread = [
        f"`{key.name}` of [{'.'.join(map(str, keys.path))}] is declared, and none of its values changes the manifest"
        for keys in places((), values)
        for key in table(keys.declared).keys
        if key.is_in(edition) and (not key.backends or not keys.backend or keys.backend in key.backends)
        if key.kind is not Kind.TABLE and (keys.declared, key.name) not in READ_AND_DROPPED
        if not is_read(values, keys, key)
    ]
    assert not unread, "\n".join(unread)


def test_every_declared_table_stands_in_a_file() -> None:
    """So its keys are all asked for above."""
    found = {
        keys.declared
        for edition in range(NEWEST + 1)
        for framework in (TORCH, NOARCH, TVM_FFI)
        for keys in places((), document(edition, framework))
    }
    assert found == {declared.path for declared in TABLES}
