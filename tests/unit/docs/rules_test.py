"""docs/rules.md is what the rules say of themselves; UPDATE_EXPECTED=1 writes it anew.

The rules are read as text: a call of `rule` is the same in Starlark and in Python, and so are lists made of facts.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "rules.md"

INTRODUCTION = """\
# Rules

Written from the `.bzl` files by `tests/unit/docs/rules_test.py`; edit those instead.

`driver gen` writes calls of these rules; they can be written by hand as well:

```python
load("@rules_torch_kernels//rules:defs.bzl", {names})
```

Every rule has the attributes that Bazel gives to all, such as `name`, `tags` and `visibility`. Each
`kernel_variant` sets the configuration of all that it depends on; set nothing on the command line.
"""

TYPES = {
    "bool": "boolean",
    "label": "label",
    "label_list": "list of labels",
    "string": "string",
    "string_list": "list of strings",
    "string_list_dict": "dictionary of lists of strings",
}


def keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def text_of(node: ast.expr | None) -> str:
    text = "" if node is None else ast.literal_eval(node)
    assert isinstance(text, str)
    assert text, "every rule and every attribute has a `doc`"
    return text


def strings(node: ast.expr) -> list[str]:
    """A list of literals and facts."""
    backends = facts("backends")
    languages = {name: title for one in backends["BACKENDS"].values() for name, title in one["languages"].items()}
    found = eval(  # noqa: S307  (text of this project)
        compile(ast.Expression(node), "rules", "eval"), {**backends, **facts("settings"), "LANGUAGES": languages}
    )
    assert all(isinstance(one, str) for one in found)
    return list(found)


def called(node: ast.expr) -> str:
    assert isinstance(node, ast.Call)
    return ast.unparse(node.func)


def public_rules() -> Iterator[tuple[str, ast.Module]]:
    """The names that defs.bzl gives, each with the file that it comes from."""
    modules: dict[str, ast.Module] = {}
    for statement in ast.parse((ROOT / "rules" / "defs.bzl").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            label = text_of(statement.value.args[0])
            path = ROOT / label.removeprefix("//").replace(":", "/")
            module = ast.parse(path.read_text(encoding="utf-8"))
            modules |= {name: module for name, value in keywords(statement.value).items() if text_of(value)}
        elif isinstance(statement, ast.Assign):
            assert isinstance(statement.targets[0], ast.Name)
            yield statement.targets[0].id, modules[ast.unparse(statement.value)]


def attribute_line(name: str, call: ast.expr) -> str:
    assert isinstance(call, ast.Call)
    given = keywords(call)
    about = [TYPES[called(call).removeprefix("attr.")]]
    about += ["mandatory"] if "mandatory" in given and ast.literal_eval(given["mandatory"]) else []
    if providers := given.get("providers"):
        assert isinstance(providers, ast.List)
        about.append("of targets with " + ", ".join(f"`{ast.unparse(one)}`" for one in providers.elts))
    if "values" in given:
        about.append("one of " + ", ".join(f"`{value}`" if value else "empty" for value in strings(given["values"])))
    if not isinstance(files := given.get("allow_files", ast.Constant(False)), ast.Constant):  # noqa: FBT003
        about.append("files: " + ", ".join(f"`{suffix}`" for suffix in strings(files)))
    return f"- `{name}` ({'; '.join(about)}). {text_of(given.get('doc'))}"


def rule_section(name: str, module: ast.Module) -> str:
    assignments = (statement for statement in module.body if isinstance(statement, ast.Assign))
    rule = next(one.value for one in assignments if ast.unparse(one.targets[0]) == name)
    assert called(rule) == "rule"
    assert isinstance(rule, ast.Call)
    given = keywords(rule)
    attributes = given["attrs"]
    assert isinstance(attributes, ast.Dict)
    pairs = [(text_of(key), value) for key, value in zip(attributes.keys, attributes.values, strict=True)]
    lines = [
        attribute_line(key, value) for key, value in sorted(pairs, key=lambda pair: pair[0]) if not key.startswith("_")
    ]
    return "\n".join([f"## {name}", "", text_of(given.get("doc")), "", *lines]) + "\n"


def render() -> str:
    rules = list(public_rules())
    introduction = INTRODUCTION.format(names=", ".join(f'"{name}"' for name, _ in rules))
    return "\n".join([introduction, *(rule_section(name, module) for name, module in rules)])


def test_the_page_is_fresh() -> None:
    text = render()
    if os.environ.get("UPDATE_EXPECTED") == "1":
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text
