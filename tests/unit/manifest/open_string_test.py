"""A string without an end is shown where it begins."""

from __future__ import annotations

import pytest

from py_driver.errors import Code, DriverError
from py_driver.manifest.text import parse


@pytest.mark.parametrize(
    ("text", "line", "column", "quote"),
    [
        ('a = "b\nc = 1\n', 1, 5, '"'),
        ("a = 'b\n", 1, 5, "'"),
        ("a = 'b\nc = 1\n", 1, 5, "'"),
        ('a = 1\nb = ["c", "d\n]\n', 2, 11, '"'),
        ('a = """b\nc\n', 1, 5, '"""'),
        ("a = '''b\nc", 1, 5, "'''"),
        ('a = "b', 1, 5, '"'),
        ('a = "it\'s" # "\nb = "c\n', 2, 5, '"'),
    ],
)
def test_where_it_begins(text: str, line: int, column: int, quote: str) -> None:
    with pytest.raises(DriverError) as caught:
        parse(text.encode(), "build.toml")
    [diagnostic] = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == (Code.TOML_SYNTAX, "the string has no end")
    assert diagnostic.help == f"write {quote} at the end of the string"
    assert diagnostic.span is not None
    assert (diagnostic.span.line, diagnostic.span.column) == (line, column)


@pytest.mark.parametrize("text", ['a = "b" c\n', "a = b\n", 'a = "\\q"\n', 'a = "b""\n'])
def test_other_mistakes_keep_their_message(text: str) -> None:
    with pytest.raises(DriverError) as caught:
        parse(text.encode(), "build.toml")
    assert caught.value.diagnostics[0].message != "the string has no end"
