"""Each command reads every option of its own and no other, and has a test."""

from __future__ import annotations

import argparse
import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from py_driver.cli import COMMANDS, Parser, load_command

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
PACKAGE = "py_driver.cli"
RUNNERS = {"main", "run"}
"""What tests call with the words of a command line: `main(["check"])`, `driver.run("check")`."""


class Definition(NamedTuple):
    """A function or class of the command line: its module and its name."""

    module: str
    name: str


class Reads(NamedTuple):
    """The options that code reads: as attributes, which must be there, and with `getattr`."""

    attributes: frozenset[str]
    optional: frozenset[str]


FIRST = (Definition(PACKAGE, "run_command_line"), Definition(f"{PACKAGE}.variables", "take_variables"))
"""What runs before every command."""


@cache
def tree_of(module: str) -> ast.Module:
    """A module of the command line."""
    name = module.removeprefix(PACKAGE).strip(".") or "__init__"
    return ast.parse((ROOT / "py_driver" / "cli" / f"{name}.py").read_text(encoding="utf-8"))


@cache
def names_of(module: str) -> dict[str, Definition]:
    """What names mean in a module, as far as they are of the command line."""
    tree = tree_of(module)
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = {name: Definition(module, name) for name in defined}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            names |= {alias.asname or alias.name: Definition(node.module or "", alias.name) for alias in node.names}
    return names


def of_modules(body: ast.AST, names: dict[str, Definition]) -> Iterator[Definition]:
    """What code uses of a module that it imports whole, such as `extension.build`."""
    for node in ast.walk(body):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = names.get(node.value.id, Definition("", ""))
            if module.module == PACKAGE and (ROOT / "py_driver" / "cli" / f"{module.name}.py").is_file():
                yield Definition(f"{PACKAGE}.{module.name}", node.attr)


def used_by(*start: Definition) -> Iterator[ast.AST]:
    """The functions and classes that some use, directly or not, and themselves."""
    waiting, seen = [*start], {*start}
    while waiting:
        module, name = waiting.pop()
        for body in [node for node in tree_of(module).body if getattr(node, "name", "") == name]:
            yield body
            words = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
            names = names_of(module)
            further = {definition for word, definition in names.items() if word in words} | set(of_modules(body, names))
            further -= seen
            waiting += further
            seen |= further


def read(*start: Definition) -> Reads:
    """The options that functions read, and what they call: `args.NAME`, and `getattr(args, "NAME", ...)`."""
    nodes = [node for body in used_by(*start) for node in ast.walk(body)]
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)]
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr"]
    return Reads(
        frozenset(node.attr for node in attributes if ast.unparse(node.value) == "args"),
        frozenset(ast.literal_eval(node.args[1]) for node in calls if ast.unparse(node.args[0]) == "args"),
    )


def read_by(command: str) -> Reads:
    """The options that a command reads."""
    return read(Definition(f"{PACKAGE}.{command.replace('-', '_')}", "run"))


def written(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """The arguments of a parser and of those below it: what code calls them, and how they are written."""
    for action in parser._actions:  # noqa: SLF001  (argparse has no public list)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for inner in action.choices.values():
                yield from written(inner)
        if action.dest not in {"help", argparse.SUPPRESS}:
            yield action.dest, (action.option_strings or [action.dest])[-1]


def options_of(command: str) -> dict[str, str]:
    """The arguments of a command, as `written` has them."""
    subparsers: Any = Parser(prog="driver").add_subparsers()
    load_command(command).add(subparsers)
    return dict(written(subparsers.choices[command]))


def set_on_args(*start: Definition) -> set[str]:
    """What functions add to a command line: `args.NAME = ...`."""
    nodes = [node for body in used_by(*start) for node in ast.walk(body) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "args"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_read(command: str) -> None:
    known = frozenset().union(*read(*FIRST), *read_by(command))
    faults = [
        f"`driver {command}` never reads {text}" for name, text in options_of(command).items() if name not in known
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_that_is_read_exists(command: str) -> None:
    known = {*options_of(command), *set_on_args(*FIRST)}
    faults = [
        f"`driver {command}` reads `args.{name}`, an option of others"
        for name in sorted(read_by(command).attributes - known)
    ]
    assert not faults, "\n".join(faults)


def test_every_command_has_a_test() -> None:
    tested = set()
    for path in (ROOT / "tests").rglob("*_test.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in RUNNERS and node.args:
                words = node.args[0].elts[:1] if isinstance(node.args[0], ast.List) else node.args[:1]
                tested |= {word.value for word in words if isinstance(word, ast.Constant)}
    faults = [f"no test runs `driver {command}`" for command in COMMANDS if command not in tested]
    assert not faults, "\n".join(faults)
