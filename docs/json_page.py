# ruff: noqa: INP001  (a part of a program of its own)
"""docs/json.md: the output of each command with `--json`, as tables."""

from __future__ import annotations

import re
from collections import Counter

from py_driver.cli.results import OPTIONAL, declared, reachable, split

_HEAD = """\
# Results as JSON

Written from `py_driver/resources/results.toml` by `docs/pages.py`; edit that instead.

With `--json` a command prints one result to stdout; messages for people go to stderr. `driver schema check` prints the
JSON Schema of what `driver check --json` prints, and so for every command here. The schema admits no other key; a later
version may [add keys](../COMPATIBILITY.md). The tests hold every result that they see against it.

- A command that fails prints [errors](#errors) and does not exit with 0. `driver explain CODE --json` describes a code.
- For [several projects](cli.md#several-projects), {several} print `{{"projects": [...]}}`:
  each is the result with its `directory`, or a [failed-project](#failed-project).
- `driver {lines}` prints a result in each line, without `--json`.

A key with `?` may be absent.

- [Shared](#shared)
{contents}
"""
_WORDS = {"[": "list of ", "]": "", "{": "object of ", "}": "", "|": "or"}
"""The signs of types."""


def json_page() -> str:
    """The text of the page."""
    root = declared()
    objects: dict[str, list[str]] = {command: reachable([kind]) for command, kind in root["commands"].items()}
    counts = Counter(name for names in objects.values() for name in names)
    shared = [name for name in root["objects"] if counts[name] > 1 or name in {"errors", "failed-project"}]
    contents = [f"- [driver {command}](#driver-{command})" for command in objects]
    several = [f"`{command}`" for command in root["several"]]
    head = _HEAD.format(
        several=f"{', '.join(several[:-1])} and {several[-1]}",
        lines=root["lines"][0],
        contents="\n".join(contents),
    )
    parts = [head, "## Shared\n", *map(_table, shared)]
    for command, names in objects.items():
        parts += [f"## driver {command}\n", f"Prints {_shown(root['commands'][command])}.\n"]
        parts += [_table(name) for name in names if name not in shared]
    return "\n".join(parts)


def _table(name: str) -> str:
    """An object with its keys."""
    lines = [f"### {name}", "", "| key | type | meaning |", "|---|---|---|"]
    for key, declaration in declared()["objects"][name].items():
        kind, meaning = split(declaration)
        mark = " ?" if key.endswith(OPTIONAL) else ""
        lines.append(f"| `{key.removesuffix(OPTIONAL)}`{mark} | {_shown(kind)} | {meaning} |")
    return "\n".join([*lines, ""])


def _shown(kind: str) -> str:
    """A type in words, whose objects are links to their tables."""
    objects = declared()["objects"]

    def worded(found: re.Match[str]) -> str:
        return f"[{found[0]}](#{found[0]})" if found[0] in objects else _WORDS.get(found[0], found[0])

    return re.sub(r'"[^"]*"|[a-z][a-z0-9-]*|[\[\]{}|]', worded, kind)
