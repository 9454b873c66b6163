"""A release that is added to a matrix: its table, the sources of its facts, and what a person must check."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_WIDTH: Final = 116
_HEADER: Final = re.compile(r"^\[{1,2}[a-z]")


class Addition(NamedTuple):
    """A release that is added to a matrix.

    Attributes:
        kind: the kind of its table: `torch`, `cuda`.
        version: major and minor, e.g. `13.4`.
        table: its keys, in the order of the file.
        checked: the facts that were read, with their sources.
        open: the facts without a source, which a person must check.
        pairs: the further backends of `[[torch]]` tables in a user's own matrix, by version.
    """

    kind: str
    version: str
    table: Mapping[str, Any]
    checked: Sequence[str]
    open: Sequence[str]
    pairs: Mapping[str, Sequence[str]] = MappingProxyType({})

    @property
    def text(self) -> str:
        """The table as TOML."""
        return _table(self.kind, self.table)


def _table(kind: str, table: Mapping[str, Any]) -> str:
    return "".join([f"[[{kind}]]\n", *(f"{key} = {_value(value)}\n" for key, value in table.items())])


def _pair(version: str, backends: Sequence[str]) -> str:
    return _table("torch", {"version": version, "on-request": backends})


def _value(value: object) -> str:
    """A value as TOML. A list that is too long for a line has a line for each table in it, or is wrapped."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_value(inner)}' for key, inner in value.items())} }}"
    if isinstance(value, list | tuple):
        if any(isinstance(inner, dict) for inner in value):
            return "".join(["[\n", *(f"    {_value(inner)},\n" for inner in value), "]"])
        line = f"[{', '.join(map(_value, value))}]"
        return line if len(line) < _WIDTH else "".join(["[\n", *_lines([_value(inner) for inner in value]), "]"])
    return f'"{value}"' if isinstance(value, str) else str(value)


def _lines(words: Sequence[str]) -> Iterator[str]:
    """Words with commas, as many in a line as fit."""
    line = "   "
    for word in words:
        if len(line) + len(word) + 2 > _WIDTH:
            yield f"{line}\n"
            line = "   "
        line += f" {word},"
    yield f"{line}\n"


def inserted(text: str, addition: Addition) -> str:
    """The text of a matrix with an addition: before the first table of its kind with a higher version, else at its end.

    Args:
        text: the text of a matrix, in which each table of the kind begins with its version.
        addition: the addition, with a version that no table has.
    """
    lines = text.splitlines(keepends=True)
    starts = [
        (number, tuple(map(int, found[1].split("."))))
        for number, line in enumerate(lines[:-1])
        if line.strip() == f"[[{addition.kind}]]"
        and (found := re.match(r'version = "([0-9]+\.[0-9]+)"', lines[number + 1]))
    ]
    ours = tuple(map(int, addition.version.split(".")))
    later = [number for number, version in starts if version > ours]
    if later:
        lines.insert(later[0], f"{addition.text}\n")
    else:
        last = starts[-1][0] if starts else len(lines)
        end = next((number for number in range(last + 1, len(lines)) if _HEADER.match(lines[number])), len(lines))
        while end and (not lines[end - 1].strip() or lines[end - 1].startswith("#")) and starts:
            end -= 1
        lines.insert(end, f"{_gap(lines[:end])}{addition.text}")
    return _with_pairs("".join(lines), addition.pairs)


def _gap(lines: Sequence[str]) -> str:
    """The separator between a table and the text before it, which may lack its last line break."""
    text = "".join(lines)
    return "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"


def _with_pairs(text: str, pairs: Mapping[str, Sequence[str]]) -> str:
    """The text of a user's matrix with further backends of torch releases, each in its table if there is one."""
    for version, backends in pairs.items():
        table = re.compile(rf'(\[\[torch\]\]\nversion = "{re.escape(version)}"\non-request = \[[^\]\n#]*)\]')
        more = "".join(f', "{backend}"' for backend in backends)
        text, count = table.subn(rf"\g<1>{more}]", text, count=1)
        text = text if count else f"{text}{_gap([text])}{_pair(version, backends)}"
    return text


def request(addition: Addition, archives: Sequence[Mapping[str, Any]]) -> str:
    """The text of a pull request for an addition, as Markdown.

    Args:
        addition: the addition.
        archives: the entries of the lock for it.
    """
    rows = [f"| {entry['name']} | {entry['version']} | `{entry['sha256']}` |" for entry in archives]
    return "\n".join(
        [
            f"Add {_TITLES[addition.kind]} {addition.version}",
            "",
            "```toml",
            "\n".join([addition.text, *(_pair(*pair) for pair in addition.pairs.items())]).rstrip(),
            "```",
            "",
            "Read from the package index:",
            "",
            *(f"- {line}" for line in addition.checked),
            "",
            "| archive | version | SHA-256 |",
            "|---|---|---|",
            *rows,
            "",
            "For a person to check:",
            "",
            *(f"- [ ] {line}" for line in addition.open),
        ]
    )


_TITLES: Final = {"torch": "torch", "cuda": "CUDA"}
