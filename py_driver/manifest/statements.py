"""The text of a build.toml as statements that can be moved: what `upgrade` edits.

tomlkit reads the text, and its tree is flattened at once: in a list of statements, out-of-order tables, dotted keys and
inline tables need no special care when the text is joined again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import tomlkit
from tomlkit.items import AbstractTable, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tomlkit.container import Container
    from tomlkit.items import Key

Path = tuple[str, ...]
"""The keys that lead to a table or a value."""

_COMMENT = re.compile(
    r'"""(?:[^"\\]|\\(?:.|\n)|"(?!""))*"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|(#[^\r\n]*)'
)


_OWN_LINE = re.compile(r"([ \t]*)(#[^\r\n]*)?(\r?\n)?")


def comments(text: str) -> list[str]:
    """The comments in a piece of TOML, each without its line break."""
    return [found[1] for found in _COMMENT.finditer(text) if found[1]]


@dataclass(kw_only=True, slots=True)
class Statement:
    """A header, a key with its value, a comment on a line of its own, or a blank line.

    Attributes:
        path: the table of a header, the full path of a key; () for comments and blank lines.
        table: the table of the last header at or above it.
        indent: the space before it.
        name: the header with its brackets, the key as written, or the comment.
        sep: the equals sign with the space around it.
        value: the value as written; "" without one.
        right: the rest: a comment on the same line, and the line break.
    """

    path: Path = ()
    table: Path = ()
    indent: str = ""
    name: str = ""
    sep: str = ""
    value: str = ""
    right: str

    @property
    def text(self) -> str:
        """The statement as it is written."""
        return f"{self.indent}{self.name}{self.sep}{self.value}{self.right}"

    @property
    def is_comment(self) -> bool:
        """Whether it is only a comment."""
        return self.name.startswith("#")

    @property
    def is_header(self) -> bool:
        """Whether it is the header of a table."""
        return bool(self.path) and self.path == self.table

    @property
    def is_blank(self) -> bool:
        """Whether it is a blank line."""
        return not self.name

    def spell(self, path: Path, table: Path) -> None:
        """Give a key another path, spelled for its place below the header of a table."""
        self.path, self.table, self.name = path, table, ".".join(path[len(table) :])


class Statements:
    """The statements of a file, in order.

    Args:
        text: the file; with LF or CRLF, with or without a line break at its end.

    Attributes:
        exact: whether they reproduce the text; if not, tomlkit has misread it.
    """

    def __init__(self, text: str) -> None:
        self._newline = "\r\n" if re.match(r"[^\n]*\r\n", text) else "\n"
        self._open = bool(text) and not text.endswith("\n")
        complete = text + self._newline if self._open else text
        self._all = list(_flat(tomlkit.parse(complete)))
        self.exact = self.text == text

    @property
    def text(self) -> str:
        """The current text of the file."""
        text = "".join(statement.text for statement in self._all)
        return text.removesuffix(self._newline) if self._open else text

    def has(self, table: Path) -> bool:
        """Whether any statement belongs to a table."""
        return any(statement.path[: len(table)] == table for statement in self._all)

    def find(self, *path: str) -> Statement | None:
        """The key of a path; an inline table that contains it is unfolded."""
        index = self._index(path)
        return None if index is None else self._all[index]

    def pair(self, value: str) -> list[Statement]:
        """A new key, still without a path, for `insert` and `add_after`."""
        return [Statement(sep=" = ", value=value, right=self._newline)]

    def comment_lines(self, names: Iterable[str]) -> list[Statement]:
        """New comments, each in a line of its own."""
        return [Statement(name=name, right=self._newline) for name in names]

    def take(self, *path: str) -> list[Statement]:
        """Remove a key and the comments directly above it, and return all of them; [] if it is absent."""
        if (index := self._index(path)) is None:
            return []
        start = self._start(index)
        taken = self._all[start : index + 1]
        self._cut(start, index + 1)
        return taken

    def drop(self, *path: str) -> None:
        """Remove a key, but keep its comments, each on a line of its own."""
        if (index := self._index(path)) is None:
            return
        statement = self._all[index]
        if left := self._lines(statement, comments(statement.value + statement.right)):
            self._all[index : index + 1] = left
        else:
            self._cut(index, index + 1)

    def insert(self, table: Path, key: str, moved: list[Statement], after: Sequence[str] = ()) -> None:
        """Put a key into a table, which is created if missing.

        Args:
            table: the table.
            key: the name of the key there.
            moved: the key's comments and the key, as `take` and `pair` return them.
            after: the keys behind which it goes; it becomes the first key if none of them exists.
        """
        header, members = self._home(table)
        if header is None and not members:
            header = self._add_header(table)
        before = [index for index in members if self._all[index].path in {(*table, name) for name in after}]
        near = self._all[before[-1] if before else members[0]] if members else None
        if before:
            at = before[-1] + 1
        elif members:
            at = self._start(members[0]) or members[0]  # comments at the top of the file stay there
        else:
            at = (header or 0) + 1
        moved[-1].spell((*table, key), near.table if near else table)
        moved[-1].indent = near.indent if near else ""
        self._all[at:at] = moved

    def add_after(self, home: Path, table: Path, keys: Iterable[tuple[str, list[Statement]]]) -> None:
        """Put a new table directly after another one, with a header if the other has one, else with dotted keys.

        Args:
            home: the other table.
            table: the new table.
            keys: its keys: names, and results of `take` and `pair`.
        """
        header, members = self._home(home)
        at = self._end(home)
        below = table if header is not None else self._all[members[0]].table
        new: list[Statement] = []
        if header is not None:
            spaced = at == len(self._all) or self._all[at].is_blank
            new = [Statement(right=self._newline)] * spaced
            new.append(self._header(table, self._all[header].indent))
        for key, moved in keys:
            moved[-1].spell((*table, key), below)
            new += moved
        self._all[at:at] = new

    def append_table(self, table: Path) -> None:
        """Put an empty table at the end."""
        if self._all and not self._all[-1].is_blank:
            self._all.append(Statement(right=self._newline))
        self._all.append(self._header(table))

    def copies(self, table: Path, keys: Sequence[str]) -> list[tuple[str, list[Statement]]]:
        """Copies of keys of a table, in the order of the file, without their comments."""
        found = [self._all[index] for index in self._home(table)[1]]
        return [
            (statement.path[-1], [replace(statement, right=self._newline)])
            for statement in found
            if statement.path[-1] in keys
        ]

    def rename(self, old: str, new: str) -> None:
        """Give a table of the file another name."""
        for statement in self._all:
            is_header = statement.is_header
            if statement.table[:1] == (old,):
                statement.table = (new, *statement.table[1:])
            if statement.path[:1] == (old,):
                statement.path = (new, *statement.path[1:])
                if is_header:
                    statement.name = f"[{'.'.join(statement.path)}]"
                elif not statement.table:
                    statement.spell(statement.path, ())

    def sort(self, table: Path, order: Sequence[str]) -> None:
        """Put existing keys of a table before its other keys, in an order."""
        for position, key in enumerate(order):
            self.find(*table, key)
            members = self._home(table)[1]
            if self._all[members[position]].path != (*table, key):
                self.insert(table, key, self.take(*table, key), order[:position])

    def _lines(self, near: Statement, names: Iterable[str]) -> list[Statement]:
        """Comments, each on a line of its own, with the table and indentation of another statement."""
        return [Statement(table=near.table, indent=near.indent, name=name, right=self._newline) for name in names]

    def _index(self, path: Path) -> int | None:
        for index, statement in enumerate(self._all):
            if statement.value and statement.path == path:
                return index
            if self._is_folded(statement, path) and self._unfold(index, path):
                return self._index(path)
        return None

    def _is_folded(self, statement: Statement, path: Path) -> bool:
        """Whether a statement is an inline table that a path leads through."""
        return (
            statement.value.startswith("{")
            and len(statement.path) < len(path)
            and statement.path == path[: len(statement.path)]
        )

    def _unfold(self, index: int, path: Path) -> bool:
        """Write an inline table with dotted keys, if a path leads through it; returns whether it does."""
        statement = self._all[index]
        inner = tomlkit.parse(f"x = {statement.value}")["x"]
        if not isinstance(inner, AbstractTable) or path[len(statement.path)] not in inner:
            return False
        new: list[Statement] = []
        for part in _flat(inner.value):
            new += self._lines(statement, comments(part.right) if part.value else [part.name] * part.is_comment)
            if part.value:
                name = f"{statement.name.rstrip()}.{part.name.strip()}"
                inner_path = (*statement.path, *part.path)
                new.append(
                    replace(statement, path=inner_path, name=name, sep=" = ", value=part.value, right=self._newline)
                )
        next(part for part in reversed(new) if part.value).right = statement.right
        self._all[index : index + 1] = new
        return True

    def _home(self, table: Path) -> tuple[int | None, list[int]]:
        """The statements of a table: its header, if it has one, and its keys, except those below other headers."""
        for index, statement in enumerate(self._all):
            if statement.path == table and statement.value.startswith("{"):
                inner = tomlkit.parse(f"x = {statement.value}").unwrap()["x"]
                if inner:
                    self._unfold(index, (*table, next(iter(inner))))
                else:
                    self.drop(*table)
                break
            if self._is_folded(statement, table) and self._unfold(index, table):
                return self._home(table)
        size = len(table)
        header = next(
            (i for i, statement in enumerate(self._all) if statement.is_header and statement.path == table), None
        )
        members = [
            index
            for index, statement in enumerate(self._all)
            if statement.value
            and statement.path[:size] == table
            and len(statement.path) > size
            and len(statement.table) <= size
        ]
        return header, members

    def _start(self, index: int) -> int:
        """The first of the comments directly above a statement, or the statement."""
        while index and self._all[index - 1].is_comment:
            index -= 1
        return index

    def _end(self, table: Path) -> int:
        """The end of a table's first run of keys, with the comments directly below that belong to nothing else."""
        header, members = self._home(table)
        last = members[0] if header is None else header
        for index in range(last + 1, len(self._all)):
            if index in members:
                last = index
            elif self._all[index].path:
                break
        at = end = last + 1
        while end < len(self._all) and self._all[end].is_comment:
            end += 1
        return end if end == len(self._all) or self._all[end].is_blank else at

    def _cut(self, start: int, end: int) -> None:
        """Remove statements, and a blank line that no longer separates anything."""
        del self._all[start:end]
        above = self._all[start - 1] if start else None
        below = self._all[start] if start < len(self._all) else None
        if below and below.is_blank and (above is None or above.is_blank or above.is_header):
            del self._all[start]
        while below is None and self._all and self._all[-1].is_blank:
            del self._all[-1]

    def _add_header(self, table: Path) -> int:
        """Put a header before the first one, or at the end without one; returns its index."""
        first = next((i for i, statement in enumerate(self._all) if statement.is_header), None)
        if first is None:
            self.append_table(table)
            return len(self._all) - 1
        at = self._start(first) or first  # comments at the top of the file stay there
        self._all[at:at] = [self._header(table), Statement(right=self._newline)]
        return at

    def _header(self, table: Path, indent: str = "") -> Statement:
        return Statement(path=table, table=table, indent=indent, name=f"[{'.'.join(table)}]", right=self._newline)


def _flat(
    container: Container, table: Path = (), names: Path = (), dotted: tuple[Key, ...] = ()
) -> Iterator[Statement]:
    """The statements of a container of tomlkit.

    Args:
        container: the container.
        table: the table of the header above.
        names: the parts of that header, as written.
        dotted: the parts of a dotted key that lead here.
    """
    for key, item in container.body:
        if key is None:
            for indent, name, right in _OWN_LINE.findall(item.as_string()):
                if name or right:
                    yield Statement(table=table, indent=indent, name=name, right=right)
        elif isinstance(item, Table) and key.is_dotted():
            yield from _flat(item.value, table, names, (*dotted, key))
        elif isinstance(item, Table):
            path, parts = (*table, key.key), (*names, key.as_string())
            trivia = item.trivia
            if not item.is_super_table():
                name = f"[{item.display_name or '.'.join(parts)}]"
                right = trivia.comment_ws + trivia.comment + trivia.trail
                yield Statement(path=path, table=path, indent=trivia.indent, name=name, right=right)
            yield from _flat(item.value, path, parts)
        else:
            name = ".".join(part.as_string() for part in (*dotted, key))
            yield Statement(
                path=(*table, *(part.key for part in (*dotted, key))),
                table=table,
                indent=item.trivia.indent,
                name=name.rstrip(),
                sep=name[len(name.rstrip()) :] + key.sep,
                value=item.as_string(),
                right=item.trivia.comment_ws + item.trivia.comment + item.trivia.trail,
            )
