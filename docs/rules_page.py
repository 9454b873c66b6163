# ruff: noqa: INP001  (a part of a program of its own)
"""docs/rules.md: the rules with their attributes, from the .bzl files."""

from __future__ import annotations

import ast
from collections import ChainMap
from typing import TYPE_CHECKING

from docs.tables import ROOT
from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

_ATTRIBUTE_TYPES = {
    "bool": "boolean",
    "label": "label",
    "label_list": "list of labels",
    "string": "string",
    "string_dict": "dictionary of strings",
    "string_list": "list of strings",
    "string_list_dict": "dictionary of lists of strings",
}
_RULES = """\
# Rules

<!-- Written from the .bzl files by docs/pages.py; edit those instead. -->

`driver gen` writes calls of these rules; they can be written by hand as well:

```python
load("@rules_torch_kernels//rules:defs.bzl", {names})
```

Every rule has the attributes that Bazel gives to all, such as `name`, `tags` and `visibility`. Each
`kernel_variant` sets the configuration of all that it depends on; set nothing on the command line.
"""


# A call of `rule` is the same in Starlark and in Python, so the files are read as Python.


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _text(node: ast.expr | None) -> str:
    text = "" if node is None else ast.literal_eval(node)
    if not isinstance(text, str) or not text:
        where = "" if node is None else f" (line {node.lineno})"
        message = f"every rule and every attribute has a `doc`{where}"
        raise ValueError(message)
    return text


def _strings(node: ast.expr) -> list[str]:
    """A list of literals and of facts."""
    backends = facts("backends")
    languages = [backend["languages"] for backend in backends["BACKENDS"].values()]
    names = {**backends, **facts("settings"), "LANGUAGES": ChainMap(*languages)}
    return list(eval(compile(ast.Expression(node), "rules", "eval"), names))  # noqa: S307  (text of this project)


def _call(node: ast.expr) -> ast.Call:
    if not isinstance(node, ast.Call):
        message = f"line {node.lineno}: `{ast.unparse(node)}` is no call"
        raise TypeError(message)
    return node


def _public_rules() -> Iterator[tuple[str, ast.Module]]:
    """The names that rules/defs.bzl exports, each with the file that defines it."""
    modules: dict[str, ast.Module] = {}
    for statement in ast.parse((ROOT / "rules" / "defs.bzl").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            path = ROOT / _text(statement.value.args[0]).removeprefix("//").replace(":", "/")
            module = ast.parse(path.read_text(encoding="utf-8"))
            modules |= dict.fromkeys(_keywords(statement.value), module)
        elif isinstance(statement, ast.Assign):
            yield ast.unparse(statement.targets[0]), modules[ast.unparse(statement.value)]


def _attribute(name: str, call: ast.Call) -> str:
    """The line of an attribute."""
    keywords = _keywords(call)
    facts = [_ATTRIBUTE_TYPES[ast.unparse(call.func).removeprefix("attr.")]]
    facts += ["mandatory"] if "mandatory" in keywords and ast.literal_eval(keywords["mandatory"]) else []
    if isinstance(providers := keywords.get("providers"), ast.List):
        facts.append("of targets with " + ", ".join(f"`{ast.unparse(provider)}`" for provider in providers.elts))
    if "values" in keywords:
        facts.append(
            "one of " + ", ".join(f"`{value}`" if value else "empty" for value in _strings(keywords["values"]))
        )
    if not isinstance(suffixes := keywords.get("allow_files"), ast.Constant | None):
        facts.append("files: " + ", ".join(f"`{suffix}`" for suffix in _strings(suffixes)))
    return f"- `{name}` ({'; '.join(facts)}). {_text(keywords.get('doc'))}"


def _rule(name: str, module: ast.Module) -> str:
    """The section of a rule."""
    assignments = (statement for statement in module.body if isinstance(statement, ast.Assign))
    value = next(statement.value for statement in assignments if ast.unparse(statement.targets[0]) == name)
    keywords = _keywords(_call(value))
    attributes = keywords["attrs"]
    if not isinstance(attributes, ast.Dict):
        message = f"{name}: `attrs` is no dictionary"
        raise TypeError(message)
    calls = {_text(key): _call(call) for key, call in zip(attributes.keys, attributes.values, strict=True)}
    lines = [_attribute(key, calls[key]) for key in sorted(calls) if not key.startswith("_")]
    return "\n".join([f"## {name}", "", _text(keywords.get("doc")), "", *lines]) + "\n"


def rules() -> str:
    """docs/rules.md: the documentation of the rules."""
    found = list(_public_rules())
    introduction = _RULES.format(names=", ".join(f'"{name}"' for name, _ in found))
    return "\n".join([introduction, *(_rule(name, module) for name, module in found)])
