"""The schema of build.toml, docs/build-toml.schema.json, agrees with the reader."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import tomli
from fuzz import CORPUS
from hypothesis import given, settings
from hypothesis import strategies as st

from py_driver import __main__
from py_driver.errors import Code, DriverError
from py_driver.manifest.model import CURRENT, NOARCH, TORCH, TVM_FFI
from py_driver.manifest.reader import read
from py_driver.manifest.schema import make_schema
from py_driver.manifest.tables import TABLES, table
from py_driver.matrix.backends import KERNEL_BACKENDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_driver.manifest.keys import Key, Table

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "docs" / "build-toml.schema.json"
SCHEMA = make_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
INVALID = sorted(path.parent for path in (ROOT / "tests" / "invalid").glob("*/build.toml"))
RIGHT = sorted(
    path
    for pattern in ("examples/*/build.toml", "tests/e2e/projects/*/build.toml", "tests/invalid/*/build.toml")
    for path in ROOT.glob(pattern)
)

ONLY_THE_READER = {
    "E004-nothing-to-compile": "which of the files are sources is said by their suffixes",
    "E006-bidi": "a pattern for control and bidirectional characters would need Unicode's categories",
    "E011-unknown-arch": "which capabilities there are is data of toolchains/matrix.toml, not of keys.py",
}
"""The projects with structural mistakes that the schema does not see."""

STRUCTURAL = ("E003-", "E004-", "E005-", "E006-", "E007-project-name", "E011-")

ASKED = {
    *("$id", "$schema"),
    *("title", "description", "type", "properties", "required", "additionalProperties", "enum", "pattern"),
    *("items", "default", "minimum", "minLength", "minItems", "uniqueItems", "definitions", "$ref", "anyOf", "oneOf"),
}
"""The keywords that drafts 4 and 7 both have, so far as they are used, and the name, which draft 4 ignores."""


def is_read(content: bytes) -> bool:
    """Whether the reader takes a file as one of the current edition, its flags aside."""
    try:
        manifest, findings = read(content, "build.toml")
    except DriverError:
        return False
    return manifest.edition == CURRENT and all(
        diagnostic.code is Code.BAD_FLAG for diagnostic in findings.diagnostics()
    )


def subschemas(schema: object) -> Iterator[dict[str, Any]]:
    """A schema and all those in it."""
    if isinstance(schema, list):
        for item in schema:
            yield from subschemas(item)
    elif isinstance(schema, dict):
        yield schema
        for keyword, value in schema.items():
            if keyword in {"properties", "definitions"}:
                yield from subschemas(list(value.values()))
            elif keyword not in {"enum", "default", "required"}:
                yield from subschemas(value)


def test_the_verb_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["schema"]) == 0
    captured = capsys.readouterr()
    assert captured.out == COMMITTED.read_text(encoding="utf-8")
    assert captured.err == ""


@pytest.mark.parametrize("draft", [jsonschema.Draft4Validator, jsonschema.Draft7Validator])
def test_it_is_a_schema(draft: type[jsonschema.Draft4Validator | jsonschema.Draft7Validator]) -> None:
    draft.check_schema(SCHEMA)


def test_it_uses_keywords_that_old_readers_know() -> None:
    assert {keyword for subschema in subschemas(SCHEMA) for keyword in subschema} <= ASKED


def test_patterns_mean_the_same_in_javascript() -> None:
    patterns = {subschema["pattern"] for subschema in subschemas(SCHEMA) if "pattern" in subschema}
    assert len(patterns) >= 6
    for pattern in patterns - {r"\S"}:
        assert re.fullmatch(r"\^.*\$", pattern)
        assert not re.search(r"\(\?|\\[AZzdwbpPxuN]|[*+?}]\+|\|\$|\^\|", pattern), pattern


def test_every_key_is_described() -> None:
    for subschema in subschemas(SCHEMA):
        for name, value in subschema.get("properties", {}).items():
            assert "$ref" in value or value["description"], name
            assert "](#" not in value.get("description", "")


def test_there_is_one_of_edition_6() -> None:
    validator = jsonschema.Draft7Validator(make_schema(6))
    files = [tomli.loads(path.read_text(encoding="utf-8")) for path in CORPUS.glob("edition6*.toml")]
    assert len(files) == 2
    for file in files:
        validator.validate(file)
        assert not VALIDATOR.is_valid(file)
    kernel = files[0]["kernel"].popitem()[1]
    kernel["backend"] = kernel.pop("language").partition("-")[2]
    assert not validator.is_valid({**files[0], "kernel": {"one": kernel}})


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: f"{path.parent.name}")
def test_what_is_read_is_admitted(path: Path) -> None:
    content = path.read_bytes()
    if is_read(content):
        VALIDATOR.validate(tomli.loads(content.decode("utf-8")))


def test_there_are_files_that_are_read() -> None:
    assert sum(is_read(path.read_bytes()) for path in RIGHT) >= 10


@pytest.mark.parametrize(
    "directory", [project for project in INVALID if project.name.startswith(STRUCTURAL)], ids=lambda path: path.name
)
def test_structural_mistakes_are_seen(directory: Path) -> None:
    value = tomli.loads((directory / "build.toml").read_text(encoding="utf-8"))
    assert VALIDATOR.is_valid(value) == (directory.name in ONLY_THE_READER)


def test_the_exceptions_exist() -> None:
    assert set(ONLY_THE_READER) <= {project.name for project in INVALID}


# Documents are made from the declarations, and then spoilt in one place.

UNWRITTEN = {"cuda_capabilities", "rocm_archs"}
"""Second spellings, which the schema admits beside the first; see py_driver/manifest/schema.py."""

WRONG: list[Any] = [7, -1, True, 1.5, "", "no such thing", "2.11", [], ["no such thing"], [""], [7], {}, {"x": 1}]


def example(key: Key) -> object:
    return tomli.loads(f"it = {key.example}")["it"]


def filled(draw: st.DrawFn, declared: Table, backend: str = "") -> dict[str, Any]:
    """A table with all keys that it must have and some of the others."""
    values: dict[str, Any] = {}
    for key in declared.keys:
        admitted = not key.backends or backend in key.backends
        if not key.is_in(CURRENT) or not admitted or not key.example or key.name in UNWRITTEN:
            continue
        if key.is_required(CURRENT) or draw(st.booleans()):
            values[key.name] = backend if key.name == "backend" else example(key)
    return values


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Files of the current edition that are right, as tables."""
    general = filled(draw, table("general"))
    for one in draw(st.sets(st.sampled_from(["cuda", "neuron", "xpu", "hub"]))):
        general[one] = filled(draw, table(f"general.{one}"))
    if draw(st.booleans()):
        general["tpu"] = {"python-depends": []}
    for declared in (general, *(value for value in general.values() if isinstance(value, dict))):
        if "kernel-depends" in declared and draw(st.booleans()):
            declared["kernel-depends"] = [{"repo-id": "owner/name", "revision": "main"}]
    # The one example of `python-depends` stands for all tables; each admits packages of its own.
    for name, package in (("cuda", "nvidia-cutlass-dsl"), ("neuron", "nki"), ("xpu", "onednn")):
        if "python-depends" in general.get(name, {}):
            general[name]["python-depends"] = [package]
    framework = draw(st.sampled_from([TORCH, NOARCH, TVM_FFI]))
    document = {"general": general, framework: filled(draw, table(framework))}
    if "stable-abi" in document[framework] and draw(st.booleans()):
        document[framework]["stable-abi"] = {"cuda": "2.9", "cpu": "2.10"}
    backends = draw(st.lists(st.sampled_from(KERNEL_BACKENDS), max_size=2))
    empty = draw(st.booleans())
    if backends or empty:
        document["kernel"] = {
            f"k{index}": filled(draw, table("kernel.*"), backend) for index, backend in enumerate(backends)
        }
    return document


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:  # noqa: ANN401
    """The paths of everything in a value, besides itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def at(value: Any, path: tuple[str | int, ...]) -> Any:  # noqa: ANN401
    for key in path:
        value = value[key]
    return value


@st.composite
def spoilt(draw: st.DrawFn) -> dict[str, Any]:
    """A file with one change that may or may not be a mistake."""
    document = copy.deepcopy(draw(documents()))
    *parents, last = draw(st.sampled_from(list(places(document))))
    parent = at(document, tuple(parents))
    match draw(st.sampled_from(["drop", "add", "change", "move", "double"])):
        case "drop":
            del parent[last]
        case "add" if isinstance(parent, dict):
            known = [key.name for declared in TABLES for key in declared.keys if key.name not in UNWRITTEN]
            parent[draw(st.sampled_from([*known, "extra"]))] = draw(st.sampled_from(WRONG))
        case "move" if isinstance(parent, dict):
            parent["extra"] = parent.pop(last)
        case "double" if isinstance(parent, list):
            parent.append(copy.deepcopy(parent[-1]))
        case _:
            at(document, tuple(parents))[last] = draw(st.sampled_from(WRONG))
    return document


def as_toml(value: Any) -> str:  # noqa: ANN401
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(as_toml(item) for item in value)}]"
    return json.dumps(value)


def as_file(document: dict[str, Any]) -> bytes:
    return "".join(f"{json.dumps(key)} = {as_toml(value)}\n" for key, value in document.items()).encode("utf-8")


@given(documents())
@settings(max_examples=100, deadline=None)
def test_what_the_declarations_say_is_right_is_right(document: dict[str, Any]) -> None:
    assert is_read(as_file(document))
    VALIDATOR.validate(document)


@pytest.mark.thorough
@given(spoilt())
@settings(max_examples=400, deadline=None)
def test_reader_and_schema_agree(document: dict[str, Any]) -> None:
    content = as_file(document)
    assert tomli.loads(content.decode("utf-8")) == document
    assert is_read(content) == VALIDATOR.is_valid(document), content.decode("utf-8")
