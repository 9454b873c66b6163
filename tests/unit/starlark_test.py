"""Every attribute of a rule, field of a provider or struct and setting of a build is read; `.bzl` is read as Python."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for directory in ("rules", "toolchains")
    for path in sorted((ROOT / directory).rglob("*.bzl"))
}
ATTRIBUTES = {"attr", "executable", "file", "files", "split_attr"}
"""What an attribute is read from: `ctx.file.NAME`, `repository_ctx.attr.NAME`, in a transition `attr.NAME`."""


def calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    """The calls of some functions."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return (node for node in nodes if ast.unparse(node.func) in names)


def loaded(file: str) -> set[str]:
    """A file and all that it loads of the project, directly or not."""
    waiting, seen = [file], {file}
    while waiting:
        current = waiting.pop()
        for call in calls(TREES[current], "load"):
            package, _, name = ast.literal_eval(call.args[0]).rpartition(":")
            path = f"{package.removeprefix('//') or Path(current).parent.as_posix()}/{name}"
            if path in TREES and path not in seen:
                seen.add(path)
                waiting.append(path)
    return seen


def readers(file: str) -> set[str]:
    """The files that may read the attributes that one declares: what it loads; if it makes no rule, what loads it."""
    if any(calls(TREES[file], "rule", "repository_rule", "tag_class")):
        return loaded(file)
    return set().union(*(loaded(other) for other in TREES if file in loaded(other)))


def declared(tree: ast.AST) -> set[str]:
    """The attributes that a file declares, of rules, repository rules and tags: `"NAME": attr.label(...)`."""
    entries = [zip(node.keys, node.values, strict=True) for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    pairs = [(key, value) for entry in entries for key, value in entry if isinstance(value, ast.Call)]
    return {ast.literal_eval(key) for key, value in pairs if key and ast.unparse(value.func).startswith("attr.")}


def attributes_read(tree: ast.AST) -> set[str]:
    """The attributes that a file reads, besides those of tags, which are `tag.NAME`; also those that make a default."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    owners = {node: ast.unparse(node.value).rpartition(".")[2] for node in nodes}
    asked = {ast.literal_eval(call.args[1]) for call in calls(tree, "getattr", "hasattr")}
    defaults = {
        keyword.value.id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("attr.")
        for keyword in call.keywords
        if keyword.arg == "default" and isinstance(keyword.value, ast.Name)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in defaults]
    asked |= {argument.arg for function in functions for argument in function.args.args}
    return asked | {node.attr for node, owner in owners.items() if owner in {*ATTRIBUTES, "tag"}}


def fields(tree: ast.AST) -> Iterator[str]:
    """The fields of the providers and structs that a file makes."""
    for call in calls(tree, "provider", "struct"):
        for keyword in call.keywords:
            if ast.unparse(call.func) == "struct" and keyword.arg:
                yield keyword.arg
            elif keyword.arg == "fields":
                yield from ast.literal_eval(keyword.value)


@pytest.mark.parametrize("file", [file for file, tree in TREES.items() if declared(tree)])
def test_every_attribute_is_read(file: str) -> None:
    read = set().union(*(attributes_read(TREES[path]) for path in readers(file)))
    faults = [f"no code reads the attribute `{name}` of {file}" for name in sorted(declared(TREES[file]) - read)]
    assert not faults, "\n".join(faults)


def test_every_field_is_read() -> None:
    read = {node.attr for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    faults = [
        f"nobody reads `{name}`, a field in {file}"
        for file in TREES
        for name in fields(TREES[file])
        if name not in read
    ]
    assert not faults, "\n".join(faults)


def test_every_setting_is_read() -> None:
    """Each is the default of an attribute, which is read, or chooses toolchains."""
    settings = [*facts("settings")["FLAGS"], *facts("settings")["VARIANT"]]
    labels = [call for tree in TREES.values() for call in calls(tree, "attr.label")]
    read = {ast.unparse(keyword.value) for call in labels for keyword in call.keywords if keyword.arg == "default"}
    chosen = calls(TREES["toolchains/declare.bzl"], "_chosen")
    read |= {
        f"'//rules/settings:{ast.literal_eval(call.args[3])}'"
        for call in chosen
        if isinstance(call.args[3], ast.Constant)
    }
    assert settings
    faults = [f"no rule reads the setting `{name}`" for name in settings if f"'//rules/settings:{name}'" not in read]
    assert not faults, "\n".join(faults)
