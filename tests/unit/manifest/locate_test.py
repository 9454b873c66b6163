"""The span of every key and value is exact: what stands there is that key and that value."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st
from tomli._parser import parse_value

from py_driver.manifest.locate import KeyPath, Source, locate, unquote
from py_driver.manifest.text import parse

if TYPE_CHECKING:
    from py_driver.errors import Span

ROOT = Path(__file__).parents[3]
FILES = sorted(
    path for top in ("examples", "py_driver", "tests", "toolchains") for path in ROOT.glob(f"{top}/**/*.toml")
)


def leaves(value: object, at: KeyPath = ()) -> list[tuple[KeyPath, object]]:
    """Every path of a parsed TOML value that leads to no table: arrays, their elements, and scalars."""
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*at, key))]
    if isinstance(value, list):
        inner = [leaf for index, item in enumerate(value) for leaf in leaves(item, (*at, index))]
        return [(at, value), *inner]
    return [(at, value)]


def equal(one: object, other: object) -> bool:
    """Whether two TOML values are the same; NaN is itself, and 1 is neither true nor 1.0."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def at_span(text: str, span: Span) -> str:
    """What stands at a span."""
    lines = text.split("\n")
    assert lines[span.line - 1] == span.text
    return span.text[span.column - 1 : span.column - 1 + span.length]


def check(text: str) -> None:
    """Assert that every span of a TOML text is exact: tomli's own parser starts and stops where the span does."""
    source = Source("x", text)
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    found = locate(source)
    for path, value in leaves(tomli.loads(text)):
        span = found[path].value
        if _is_header(span):
            assert isinstance(value, list), (path, span)
            continue
        start = starts[span.line - 1] + span.column - 1
        end, there = parse_value(text, start, float, 0)
        assert equal(there, value), (path, span)
        assert span.length == min(end, starts[span.line - 1] + len(span.text)) - start, (path, span)
    for path, location in found.items():
        if isinstance(path[-1], str):
            assert unquote(at_span(text, location.key)) == path[-1], (path, location.key)
        elif not _is_header(location.value):
            assert location.key == location.value


def _is_header(span: Span) -> bool:
    """Whether a span is that of `[[a]]`, which stands for the array and for its table."""
    return span.text[: span.column - 1].strip() == "" and span.text.lstrip().startswith("[[")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_real_files(path: Path) -> None:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
        tomli.loads(text)
    except ValueError:
        pytest.skip("it is not TOML")
    check(text)


@pytest.mark.parametrize(
    "text",
    [
        "a = ''''''\nb = \"\"\"\"\"\"\nc = ''\nd = \"\"",
        "a = '''''x'''''\nb = \"\"\"\"\"x\"\"\"\"\"",
        'a = """\n\\"\\"\\"\n # [ x"" """ # y',
        "a = '''\n]\n''' # '''",
        'a = """x \\\n   y"""',
        "a = [ # ]\n '#', \"]\", # ,\n [ ], { b = ']' }, ] # z",
        "a.b . 'c d'.\"e\\u0066\" = 1 # g",
        "[ a . 'b.c' ] # ]\n'[x]' = ']'\n[[d]]\n[[ d . e ]]\nf = 1\n[[d]]\n[d.e2]\nf = 2",
        "a = 1979-05-27 07:32:00.5-07:00 # c\nb = [1979-05-27T07:32:00Z,07:32:00, 1979-05-27 ]",
        "a = {b = 1979-05-27 07:32:00, c.d = -inf , e = 0x1}",
        "a = { b = 1, # c\n d = [ 1 ] , }",
        "1 = 2\n-_- = 4\n'' = 5\n\"\\u0020\" . a = 6",
        "a = 1\t\nb\t=\ttrue\t# x\nc = 1e5 ",
        "a = '\u00e9\U0001f600' # \u0301\nb = \"\\U0001f600\"",
    ],
)
def test_odd_texts(text: str) -> None:
    check(text)
    check(f"{text}\n")


_SPACE = st.sampled_from(["", " ", "\t", "  "])
_CLEAN = st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=["Cc"])
_CHARS = _CLEAN | st.sampled_from("\t\"'\\#[]{}=,.")
_BARE = st.text(alphabet="abAB019-_", min_size=1, max_size=4)


def _basic(text: str) -> str:
    plain = (c if c.isalnum() or c in " #[]{}=,.'" else f"\\U{ord(c):08x}" for c in text)
    return f'"{"".join(plain)}"'


def _long_basic(text: str) -> str:
    return '"""' + text.replace("\\", "\\\\").replace('"""', '""\\"').removesuffix('"') + '"""'


def _literal(text: str) -> str:
    return f"'{text.replace(chr(39), '')}'"


def _long_literal(text: str) -> str:
    return f"'''{text.replace(chr(39) * 3, '')}'''"


_TEXTS = st.text(alphabet=_CHARS, max_size=8)
_LONG = st.lists(_TEXTS, max_size=3).map("\n".join)
_STRINGS = _TEXTS.map(_basic) | _TEXTS.map(_literal) | _LONG.map(_long_basic) | _LONG.map(_long_literal)
_NUMBERS = (
    st.integers(-(2**63), 2**63 - 1).map(str)
    | st.integers(0, 2**62).map(hex)
    | st.floats().map(repr)
    | st.sampled_from(["+1_000", "0o17", "0b1_0", "6.02e+2_3", "-inf", "nan", "true", "false"])
)
_TIMES = (
    st.datetimes().map(lambda one: one.isoformat(" "))
    | st.datetimes().map(lambda one: f"{one.isoformat()}Z")
    | st.dates().map(str)
    | st.times().map(str)
)
_KEYS = _BARE | _TEXTS.map(_basic) | _TEXTS.map(_literal)
_BREAK = st.sampled_from(["", " ", "\n", " # ]'\"\n", "\n\t# x\n"])


@st.composite
def _array(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = [f"{draw(_BREAK)}{item}{draw(_BREAK)}" for item in draw(st.lists(inner, max_size=4))]
    end = draw(st.sampled_from(["", ","])) if items else ""
    return f"[{','.join(items)}{end}{draw(_BREAK)}]"


@st.composite
def _inline(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    values = draw(st.lists(inner, max_size=3))
    pairs = [f"{draw(_SPACE)}{draw(_dotted())}{draw(_SPACE)}={draw(_SPACE)}{value}" for value in values]
    return f"{{{', '.join(pairs)}{draw(_SPACE)}}}"


@st.composite
def _dotted(draw: st.DrawFn) -> str:
    return f"{draw(_SPACE)}.{draw(_SPACE)}".join(draw(st.lists(_KEYS, min_size=1, max_size=3)))


_VALUES = st.recursive(_STRINGS | _NUMBERS | _TIMES, lambda inner: _array(inner) | _inline(inner), max_leaves=8)


@st.composite
def _documents(draw: st.DrawFn) -> str:
    """Documents of all that TOML has; those that say a key twice are no TOML."""
    lines: list[str] = []
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.integers(0, 9))
        if kind < 6:
            lines.append(f"{draw(_SPACE)}{draw(_dotted())}{draw(_SPACE)}={draw(_SPACE)}{draw(_VALUES)}{draw(_SPACE)}")
        elif kind < 9:
            left, right = ("[", "]") if draw(st.booleans()) else ("[[", "]]")
            lines.append(f"{draw(_SPACE)}{left}{draw(_SPACE)}{draw(_dotted())}{draw(_SPACE)}{right}")
        lines[-1:] = [line + draw(st.sampled_from(["", " # x = '''", "#"])) for line in lines[-1:]]
    return "\n".join(lines)


def _is_toml(text: str) -> bool:
    try:
        tomli.loads(text)
    except tomli.TOMLDecodeError:
        return False
    return True


@settings(max_examples=300, deadline=None)
@given(_documents().filter(_is_toml))
def test_any_document(text: str) -> None:
    check(text)
    _, found, source = parse(text.replace("\n", "\r\n").encode("utf-8"), "x")
    assert source.text == text
    assert {path: (node.key, node.value) for path, node in found.items()} == {
        path: (node.key, node.value) for path, node in locate(source).items()
    }
