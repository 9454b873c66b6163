"""The JSON Schemas of `--json` output, generated from the data file `results.toml`. Pure.

The schemas are draft-07, as the schema of build.toml is. They allow only keys of the data file.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.resources import resource

if TYPE_CHECKING:
    from py_driver.manifest.schema import Schema

OPTIONAL: Final = "?"
"""The suffix of a key that may be absent."""

_PRIMITIVES: Final = ("string", "integer", "number", "boolean", "null")
_TOKEN: Final = re.compile(r'\s*("[^"]*"|[a-z][a-z0-9-]*|[\[\]{}|])\s*')


@cache
def declared() -> dict[str, Any]:
    """The data file: `commands`, `several`, `lines` and `objects`."""
    return tomli.loads(resource("results.toml"))


def split(declaration: str) -> tuple[str, str]:
    """The type and the meaning of a key.

    Args:
        declaration: the declaration in the data file.
    """
    kind, meaning = re.split(r":\s+", declaration, maxsplit=1)
    return kind, meaning


def make_result_schema(command: str) -> Schema:
    """The schema of a command's output: its result, or its errors.

    Args:
        command: a command with an entry in `commands`.
    """
    root = declared()
    results = [name.strip() for name in root["commands"][command].split("|")]
    alternatives = [_typed(result) for result in results]
    definitions = {name: _object(name) for name in reachable([*results, "errors"])}
    if command in root["several"]:
        own = {f"project-{name}": _of_project(definitions[name]) for name in results}
        definitions |= {**own, **{name: _object(name) for name in reachable(["failed-project"])}}
        either = {"anyOf": [_reference(name) for name in (*own, "failed-project")]}
        definitions["projects"] = _closed({"projects": {"type": "array", "items": either}})
        alternatives.append(_reference("projects"))
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"driver {command}" + ("" if command in root["lines"] else " --json"),
        "anyOf": [*alternatives, _reference("errors")],
        "definitions": dict(sorted(definitions.items())),
    }


def _reference(name: str) -> Schema:
    """A reference to a definition."""
    return {"$ref": f"#/definitions/{name}"}


def _of_project(result: Schema) -> Schema:
    """The schema of a project's result among several: with the directory of the project."""
    directory = {"description": "the directory of the project", "type": "string"}
    return {
        **result,
        "required": list(dict.fromkeys(["directory", *result["required"]])),
        "properties": {"directory": directory, **result["properties"]},
    }


def reachable(types: list[str]) -> list[str]:
    """The names of all objects that types contain, directly or not."""
    objects, waiting, found = declared()["objects"], list(types), dict[str, None]()
    while waiting:
        for word in re.findall(r"[a-z][a-z0-9-]*", re.sub(r'"[^"]*"', "", waiting.pop())):
            if word in objects and word not in found:
                found[word] = None
                waiting += [split(declaration)[0] for declaration in objects[word].values()]
    return list(found)


def _closed(properties: Schema, optional: frozenset[str] = frozenset()) -> Schema:
    """The schema of an object without other keys."""
    required = [key for key in properties if key not in optional]
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _object(name: str) -> Schema:
    """The schema of an object of the data file."""
    keys = declared()["objects"][name]
    properties = {}
    for key, declaration in keys.items():
        kind, meaning = split(declaration)
        properties[key.removesuffix(OPTIONAL)] = {"description": meaning, **_typed(kind)}
    optional = frozenset(key.removesuffix(OPTIONAL) for key in keys if key.endswith(OPTIONAL))
    return _closed(properties, optional)


def _typed(kind: str) -> Schema:
    """The schema of a type in the notation of the data file.

    Raises:
        ValueError: it is not valid.
    """
    words, position = [], 0
    while position < len(kind):
        match = _TOKEN.match(kind, position)
        if match is None:
            raise ValueError(kind)
        words.append(match[1])
        position = match.end()
    schema = _either(words)
    if words:
        raise ValueError(kind)
    return schema


def _either(words: list[str]) -> Schema:
    """The schema of the alternatives at the beginning of the words, which are removed."""
    alternatives = [_simple(words)]
    while words and words[0] == "|":
        del words[0]
        alternatives.append(_simple(words))
    texts = [text for schema in alternatives for text in schema.get("enum", ())]
    if len(texts) == len(alternatives):
        return {"enum": texts}
    return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}


def _simple(words: list[str]) -> Schema:
    """The schema of the single type at the beginning of the words, which is removed.

    Raises:
        ValueError: there is no valid type.
    """
    word = words.pop(0) if words else ""
    if word in {"[", "{"}:
        inner = _either(words)
        if not words or words.pop(0) != {"[": "]", "{": "}"}[word]:
            raise ValueError(word)
        return {"type": "array", "items": inner} if word == "[" else {"type": "object", "additionalProperties": inner}
    if word.startswith('"'):
        return {"enum": [word[1:-1]]}
    if word in _PRIMITIVES:
        return {"type": word}
    if word == "anything":
        return {}
    if word in declared()["objects"]:
        return _reference(word)
    raise ValueError(word)
