"""From the bytes of build.toml to a table and its spans: limits first, then tomli."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import tomli

from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.manifest.locate import KeyPath, Location, Source, locate
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from pathlib import Path

SIZE_LIMIT = 4 * 1024 * 1024
"""The maximum size of a build.toml. Real files have a few kilobytes; a file with thousands of instantiations has
550."""

NESTING_LIMIT = 16
"""The maximum nesting of brackets, and the maximum number of parts of a dotted key. Edition 5 needs four."""

PART_LIMIT = 16_000
"""The maximum number of keys, values, tables and parts of dotted keys, so that no file takes seconds. Real files have
up to 10,000."""

_BOM = b"\xef\xbb\xbf"
# An unterminated string is also one token, which is found quickly, and tomli stops there.
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\(?:.|\n)|"(?!""))*+(?:"{3,5})?'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|(?:\n|\#[^\n]*)++"
    r"|[\[\]{}.=,]"
)


def is_small_file(path: Path) -> bool:
    """Whether a path is that of a file which is not too large to be looked at: at most as large as a build.toml.

    Args:
        path: of a file of a project.

    Raises:
        OSError: its size is not known.
    """
    return is_file(path) and path.stat().st_size <= SIZE_LIMIT


def parse(content: bytes, file: str) -> tuple[dict[str, Any], dict[KeyPath, Location], Source]:
    """Read TOML and find the positions of everything in it.

    Args:
        content: the bytes of the file.
        file: its path for messages.

    Returns:
        The table, the location of every path in it, and the text.

    Raises:
        DriverError: TOML_LIMIT for a file that is too large, too long or too deep; TOML_SYNTAX for everything else
            that is not TOML: a byte-order mark, bytes that are not UTF-8, bad syntax.
    """
    check_size(len(content), file)
    source = Source(file, _decode(content, file))
    _check_limits(source)
    try:
        table = tomli.loads(source.text)
    except tomli.TOMLDecodeError as problem:
        at = min(problem.pos, len(source.text))
        if found := _open_string(source.text, at):
            start, quote = found
            end = source.text.find("\n", start)
            advice = f"write {quote} at the end of the string"
            raise _syntax(
                source, start, len(source.text) if end < 0 else end, "the string has no end", advice
            ) from None
        if twice := _written_twice(source.text, at, problem.msg):
            start, end, shown = twice
            raise _syntax(source, start, end, f"{shown} is written twice", "keep one of them") from None
        raise _syntax(source, at, at + 1, _sentence(problem.msg)) from None
    except ValueError:
        # tomli passes on Python's error about an integer of more than 4300 digits, without a position.
        start, end = _huge_number(source.text)
        message = f"an integer of {end - start} characters is larger than TOML allows"
        raise _syntax(source, start, end, message) from None
    return table, locate(source), source


def check_size(size: int, file: str) -> None:
    """Refuse a file that is too large to be read.

    Args:
        size: its bytes.
        file: its path for messages.

    Raises:
        DriverError: TOML_LIMIT.
    """
    if size > SIZE_LIMIT:
        message = f"{file} has {size} bytes; at most {SIZE_LIMIT} are read"
        raise DriverError([Diagnostic(code=Code.TOML_LIMIT, message=message)])


def _huge_number(text: str) -> tuple[int, int]:
    """The position of the longest number outside of strings and comments."""
    parts = re.finditer(rf"{_TOKEN.pattern}|(?P<number>[0-9][0-9_]+)", text)
    numbers = [part.span("number") for part in parts if part["number"]]
    return max(numbers, key=lambda number: number[1] - number[0], default=(0, 1))


def _open_string(text: str, at: int) -> tuple[int, str] | None:
    """The start of a string that is unterminated where a parser stopped, and its quotes; None without one.

    Args:
        text: the text of the file.
        at: where the parser stopped.
    """
    for token in _TOKEN.finditer(text):
        symbol = token.group()
        if token.start() >= at:
            break
        quote = symbol[:3] if symbol[:3] in {'"""', "'''"} else symbol[:1]
        if quote[0] in "\"'" and not (len(symbol) >= 2 * len(quote) and symbol.endswith(quote)):
            return token.start(), quote
    return None


def _written_twice(text: str, at: int, message: str) -> tuple[int, int, str] | None:
    """The position of a duplicate key or header, and its form in messages; None if that is not the problem.

    Args:
        text: the text of the file.
        at: where the parser stopped: after a value, or within the header.
        message: the message of tomli.
    """
    if not re.match(r"Cannot (?:overwrite|declare|mutate)", message):
        return None
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:].partition("\n")[0]
    if header := re.match(r"[ \t]*(\[\[?[^\]#]*\]\]?)", line):
        return begin + header.start(1), begin + header.end(1), f"the table `{header[1]}`"
    if key := re.match(r"[ \t]*([^=\s]+)[ \t]*=", line):
        return begin + key.start(1), begin + key.end(1), f"`{key[1]}`"
    return None


def _sentence(message: str) -> str:
    """A message of tomli in the style of this driver: on one line, in lower case."""
    line = message.splitlines()[0] if message else "not TOML"
    return line[:1].lower() + line[1:]


def _syntax(source: Source, start: int, end: int, message: str, help_text: str = "") -> DriverError:
    span = source.span(start, end)
    return DriverError([Diagnostic(code=Code.TOML_SYNTAX, message=message, span=span, help=help_text)])


def _decode(content: bytes, file: str) -> str:
    """The text of the file, with line feeds."""
    if content.startswith(_BOM):
        first = Source(file, content[len(_BOM) :].split(b"\n", 1)[0].decode("utf-8", "replace"))
        raise _syntax(first, 0, 1, "the file starts with a byte-order mark", "save it as UTF-8 without a mark")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as problem:
        lossy = Source(file, content.decode("utf-8", "replace").replace("\r\n", "\n"))
        at = len(content[: problem.start].decode("utf-8").replace("\r\n", "\n"))
        message = f"byte 0x{content[problem.start]:02x} is not UTF-8"
        raise _syntax(lossy, at, at + 1, message, "save the file as UTF-8") from None
    return text.replace("\r\n", "\n")


def _check_limits(source: Source) -> None:
    """Refuse a text that would make a parser recurse deeply or take quadratic time.

    Raises:
        DriverError: TOML_LIMIT, with the position of the first bracket or dot beyond the limit.
    """
    depth = dots = parts = 0
    for token in _TOKEN.finditer(source.text):
        symbol = token.group()
        if symbol in {"[", "{"}:
            depth += 1
        elif symbol in {"]", "}"}:
            depth = max(0, depth - 1)
        if symbol == ".":
            dots += 1
        elif symbol in {"[", "]", "{", "}", "=", ","} or symbol[0] in "\n#":
            dots = 0
        parts += symbol in {"[", "{", "=", ",", "."}
        message = ""
        if depth > NESTING_LIMIT or dots >= NESTING_LIMIT:
            what = "brackets inside one another" if depth > NESTING_LIMIT else "parts of a dotted key"
            message = f"more than {NESTING_LIMIT} {what}"
        elif parts > PART_LIMIT:
            message = f"more than {PART_LIMIT} keys and values"
        if message:
            span = source.span(token.start(), token.end())
            raise DriverError([Diagnostic(code=Code.TOML_LIMIT, message=message, span=span)])
