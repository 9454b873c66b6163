"""The JSON Schema of an edition of build.toml, generated from `keys`. Pure.

It is draft-07, written with the keywords that draft-04 has as well: editors such as those built on Taplo read either.
Only the reader checks what a schema cannot express:

- compiler flags (BAD_FLAG), paths, and whether files exist;
- names that are Python keywords or too long, and the names of kernel sections;
- control and bidirectional characters in strings;
- that `maxver` is not below `minver`, that a key is not written in two spellings, and integers from 2^63 on;
- whether an nvcc supports a CUDA capability (UNKNOWN_ARCH), and features that are not built (UNSUPPORTED).

A schema accepts a number such as `1.0` as an integer; TOML and the reader do not.
"""

from __future__ import annotations

import json
import re
from typing import Any

from py_driver.manifest.keys import VERSION, Key, Kind, Table
from py_driver.manifest.model import CURRENT, NOARCH, TORCH, TVM_FFI
from py_driver.manifest.parts import PYTHON_PACKAGES
from py_driver.manifest.tables import table
from py_driver.matrix.backends import BACKENDS, BUILT, KERNEL_BACKENDS, LANGUAGES

Schema = dict[str, Any]
"""A JSON Schema as a JSON value."""

_VERSION = f"^{VERSION}$"
"""A version, as `Section.version` accepts it."""

PAGE = "docs/build-toml.md"
"""The page that links in the declarations' texts are relative to."""

SCHEMA_ID = "https://github.com/owner/rules_torch_kernels/raw/main/docs/build-toml.schema.json"
"""The name of the schema; `owner` stands for the publisher of the project, as in `.bcr`."""

_CUDA_VERSION = '"13.0"'
_LINK = re.compile(r"\[([^\]]+)\]\(#[^)]*\)")
_NESTED = {
    "general": {name: f"general.{name}" for name in ("cuda", "neuron", "tpu", "xpu", "hub")},
    "": {name: name for name in ("general", TORCH, NOARCH, TVM_FFI)},
}
"""The tables with fixed names inside a table: key to path of the declaration, by path."""


def make_schema(edition: int = CURRENT) -> Schema:
    """The schema of a build.toml.

    Args:
        edition: the edition, CURRENT to NEWEST.
    """
    root = _table(table(""), edition)
    tag, tags = ("backend", {name: name for name in KERNEL_BACKENDS})
    if not _key("kernel.*", tag).is_in(edition):
        tag, tags = "language", dict(LANGUAGES)
    root["properties"]["kernel"] = {
        "description": _description("", _key("", "kernel")),
        "type": "object",
        "additionalProperties": {"oneOf": [{"$ref": f"#/definitions/kernel-{name}"} for name in tags]},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": SCHEMA_ID + (f"?edition={edition}" if edition != CURRENT else ""),
        "title": f"build.toml, edition {edition}",
        **{key: value for key, value in root.items() if key != "title"},
        "oneOf": [{"required": [name]} for name in (TORCH, NOARCH, TVM_FFI)],
        "definitions": {
            **{f"kernel-{name}": _kernel(edition, tag, name, backend) for name, backend in tags.items()},
            "kernel-depends": _kernel_depends(edition),
            "version": {"type": "string", "pattern": _VERSION},
        },
    }


def _key(path: str, name: str) -> Key:
    """The declaration of a key that edition CURRENT has."""
    key = table(path).key(name, CURRENT)
    if key is None:
        raise KeyError(name)
    return key


def packages(path: str) -> tuple[str, ...]:
    """The Python packages that `python-depends` admits in the table of a path, e.g. `general.cuda`."""
    return PYTHON_PACKAGES[path.removeprefix("general").removeprefix(".")]


def example(path: str, key: Key) -> str:
    """A value of a key in the table of a path, as TOML; its declaration may stand in several tables."""
    if key.name == "python-depends":
        return json.dumps(list(packages(path)[:1]))
    return _CUDA_VERSION if (path, key.kind) == ("general.cuda", Kind.VERSION) else key.example


def _description(path: str, key: Key) -> str:
    """The description of a key, as plain text with an example."""
    text = _LINK.sub(rf'"\1" in {PAGE}', key.doc)
    return f"{text} Example: {example(path, key)}" if key.example else text


def _table(declared: Table, edition: int, backend: str = "") -> Schema:
    """The schema of a table.

    Args:
        declared: its declaration.
        edition: the edition of the file.
        backend: the backend of a kernel section.
    """
    keys = [
        key
        for key in declared.keys
        if key.is_in(edition) and (not backend or not key.backends or backend in key.backends)
    ]
    required = [key.name for key in keys if key.is_required(edition)]
    return {
        "title": f"[{declared.path}]",
        "description": declared.doc,
        "type": "object",
        **({"required": required} if required else {}),
        "properties": {key.name: _value(declared, key, edition) for key in keys if key.name != "kernel"},
        "additionalProperties": False,
    }


def _kernel(edition: int, tag: str, value: str, backend: str) -> Schema:
    """The schema of a kernel section whose key `tag` has the value for a backend."""
    schema = _table(table("kernel.*"), edition, backend)
    schema["title"] = f"[kernel.*] for {value}"
    # A list of one value: `const` is not in draft-04.
    schema["properties"][tag]["enum"] = [value]
    return schema


def _kernel_depends(edition: int) -> Schema:
    """The schema of an entry of `kernel-depends`."""
    either = {"oneOf": [{"required": ["version"]}, {"required": ["revision"]}]}
    return {**_table(table("kernel-depends"), edition), **either}


def _value(declared: Table, key: Key, edition: int) -> Schema:
    """The schema of a key's value."""
    if path := _NESTED.get(declared.path, {}).get(key.name):
        return _table(table(path), edition)
    return {"description": _description(declared.path, key), **_typed(declared, key, edition)}


def _typed(declared: Table, key: Key, edition: int) -> Schema:
    """The schema of a key's type."""
    if key.kind is Kind.TEXTS:
        return _list(declared, key)
    if key.name == "edition":
        return {"type": "integer", "enum": [edition]}
    version = {"$ref": "#/definitions/version"}
    by_backend = {"type": "object", "properties": dict.fromkeys(BACKENDS, version), "additionalProperties": False}
    kinds: dict[Kind, Schema] = {
        Kind.TEXT: {"type": "string", **_admitted(key)},
        Kind.INTEGER: {"type": "integer", "minimum": 0},
        Kind.BOOLEAN: {"type": "boolean"},
        Kind.VERSION: {"type": "string", "pattern": _VERSION},
        Kind.VERSIONS: {"anyOf": [version, by_backend]},
        Kind.TABLE: {"type": "object"},
        Kind.TABLES: {"type": "array", "items": {"$ref": "#/definitions/kernel-depends"}},
    }
    return kinds[key.kind]


def _admitted(key: Key) -> Schema:
    """The schema of the strings that a key admits."""
    if key.choices:
        return {"enum": list(key.choices)}
    if key.pattern:
        return {"pattern": f"^({key.pattern})$"}
    # A licence of only blanks is invalid. It is the only text that must not be blank.
    return {"pattern": r"\S"} if key.name == "license" else {}


def _list(declared: Table, key: Key) -> Schema:
    """The schema of a list of strings."""
    if key.name == "python-depends":
        admitted = list(packages(declared.path))
        if not admitted:
            return {"type": "array", "enum": [[]]}
        return {"type": "array", "items": {"type": "string", "enum": admitted}}
    schema: Schema = {"type": "array", "items": {"type": "string", "minLength": 1} | _admitted(key)}
    if key.name == "backends":
        schema["uniqueItems"] = True
    if key.name == "backends" or key.pattern in {family.arch for family in BUILT.values() if family.arch}:
        schema["minItems"] = 1
    if key.name == "pyext":
        schema["default"] = ["py", "pyi"]
    return schema
