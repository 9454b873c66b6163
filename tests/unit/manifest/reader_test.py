"""build.toml as text, as a table and as a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import relu
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.manifest.locate import KeyPath, Source, locate
from py_driver.manifest.model import Bounds, Located, Manifest
from py_driver.manifest.paths import path_problem
from py_driver.manifest.reader import read

ROOT = Path(__file__).parents[3]
SPAN = Source("build.toml", "").span(0, 1)

SEED = """\
[general]
name = "activation"

[torch]
src = ["torch-ext/torch_binding.cpp", "torch-ext/torch_binding.h"]

[kernel.activation]
cuda-capabilities = ["7.5", "9.0a"]
src = ["activation/activation_kernels.cu"]
include = ["."]
depends = ["torch"]
"""

EDITION_5 = """\
[general]
name = "my-kernel"
version = 3
edition = 5
license = "apache-2.0"
backends = ["cpu", "cuda", "metal"]
upstream = "https://example.org/a.git"
python-depends = ["einops"]
kernel-depends = [{ repo-id = "a/b", version = 1 }, { repo-id = "a/c", revision = "main" }]

[general.cuda]
minver = "13.0"
python-depends = ["nvidia-cutlass-dsl"]

[general.hub]
repo-id = "a/my-kernel"

[torch]
src = ["b.cpp"]
maxver = "2.13"
cxx-flags = ["-O2"]

[kernel.c]
backend = "cpu"
depends = []
src = ["c.cpp"]

[kernel.g]
backend = "cuda"
depends = ["torch"]
src = ["g.cu"]
cuda-minver = "13.2"
cuda-flags = ["-Xptxas", "-v", "-DX=1"]

[kernel.m]
backend = "metal"
depends = ["metal-cpp"]
src = ["m.metal"]
"""


def diagnostics(text: str | bytes) -> list[Diagnostic]:
    """What is wrong with a text; any failure but a DriverError is raised."""
    try:
        _, findings = read(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"), "build.toml")
    except DriverError as failure:
        return list(failure.diagnostics)
    return list(findings.diagnostics())


def codes(text: str | bytes) -> list[Code]:
    """The codes of what is wrong with a text."""
    return [diagnostic.code for diagnostic in diagnostics(text)]


def accepts(text: str) -> bool:
    """Whether a text is a manifest."""
    return not diagnostics(text)


def manifest_of(text: str | bytes) -> Manifest:
    """The manifest of a text that is right."""
    assert diagnostics(text) == []
    return read(text if isinstance(text, bytes) else text.encode(), "build.toml")[0]


def paths(value: object, at: KeyPath = ()) -> set[KeyPath]:
    """Every path of a parsed TOML value: tables, arrays and leaves."""
    items: list[tuple[Any, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    found = {at} if at else set()
    return found.union(*(paths(inner, (*at, key)) for key, inner in items))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"my-kernel"', '"a"', [Code.BAD_NAME]),
        ('"my-kernel"', f'"{"a" * 300}"', [Code.BAD_NAME]),
        ('"my-kernel"', '"../x"', [Code.BAD_NAME]),
        ('"my-kernel"', '"a\\")\\nload(\\"@evil//:x.bzl\\""', [Code.BAD_VALUE]),
        ('"my-kernel"', '"rel\\u03c5"', [Code.BAD_NAME]),
        ('"my-kernel"', '"-relu"', [Code.BAD_NAME]),
        ('"my-kernel"', '"$(id)"', [Code.BAD_NAME]),
        ("version = 3", "version = -3", [Code.BAD_VALUE]),
        ("version = 3", "version = true", [Code.WRONG_TYPE]),
        ("version = 3\n", "", [Code.MISSING_KEY]),
        ('"13.0"', "13.0", [Code.WRONG_TYPE]),
        ('"13.0"', '"13.x"', [Code.BAD_VALUE]),
        ('["einops"]', '["einop"]', [Code.BAD_VALUE]),
        ("https://example.org/a.git", "ftp://example.org", [Code.BAD_VALUE]),
        ('revision = "main"', 'revision = "main", version = 2', [Code.BAD_VALUE]),
        ('repo-id = "a/c", ', "", [Code.MISSING_KEY]),
        ('repo-id = "a/c"', 'repo-id = ""', [Code.BAD_VALUE]),
        ('repo-id = "a/c"', 'repo-id = "c"', [Code.BAD_VALUE]),
        ('repo-id = "a/c"', 'repo-id = "not a repo/../x"', [Code.BAD_VALUE]),
        ('repo-id = "a/c"', 'repo-id = "a/../c"', [Code.BAD_VALUE]),
        ('repo-id = "a/c"', 'repo-id = "A-1.x_y/c_2.B-"', []),
        ('"main" }', '"" }', [Code.BAD_VALUE]),
        ('"main" }', '"a b" }', [Code.BAD_VALUE]),
        ('"main" }', '"refs/pr/1" }', []),
        ('repo-id = "a/my-kernel"', 'repo-id = ""\nbranch = ""', [Code.BAD_VALUE] * 2),
        ('"metal"]', '"metall"]', [Code.BAD_VALUE]),
        ('"metal"]', '"cuda"]', [Code.BAD_VALUE]),
        ('["cpu", "cuda", "metal"]', "[]", [Code.BAD_VALUE]),
        ("[torch]", "[torch-noarch]\n[torch]", [Code.BAD_VALUE]),
        ('"-DX=1"', '"-DX=1", "-Xptxas"', [Code.BAD_FLAG]),
        ("[kernel.c]", "[kernel.'c d']", []),
        ("[kernel.c]", '[kernel."c\\u202e"]', [Code.BAD_NAME]),
        ('["b.cpp"]', '["b.cpp", ""]', [Code.BAD_VALUE]),
        ("[kernel.m]", "[[kernel.m]]", [Code.WRONG_TYPE]),
        ("minver", "minvr", [Code.UNKNOWN_KEY]),
        ('backend = "metal"', 'backend = "neuron"', [Code.BAD_VALUE]),
        ('src = ["m.metal"]', 'src = ["m.metal"]\nsycl-flags = []', [Code.UNKNOWN_KEY]),
        ('"metal-cpp"', '"metal-cp"', [Code.BAD_VALUE]),
        ('"main" }', '"main" }\n[torch.x]', [Code.TOML_SYNTAX]),
    ],
)
def test_one_mistake_gives_one_error(old: str, new: str, expected: list[Code]) -> None:
    assert old in EDITION_5
    assert codes(EDITION_5.replace(old, new, 1)) == expected


def test_all_errors_come_in_the_order_of_the_file() -> None:
    text = EDITION_5.replace('"-O2"', '"-o"').replace('"my-kernel"', '"X"').replace('src = ["c.cpp"]\n', "")
    assert [diagnostic.span.line for diagnostic in diagnostics(text) if diagnostic.span] == [2, 21, 23]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\xef\xbb\xbf" + SEED.encode(), Code.TOML_SYNTAX),
        (b"a = '\xff'", Code.TOML_SYNTAX),
        (b"a = 1\n" * 2, Code.TOML_SYNTAX),
        (b"[" * 100_000, Code.TOML_LIMIT),
        (b".".join([b"a"] * 17) + b" = 1", Code.TOML_LIMIT),
        (b"#" * (4 * 1024 * 1024 + 1), Code.TOML_LIMIT),
        (b"a = " + b"1" * 5000, Code.TOML_SYNTAX),
        (b"a = 2025-02-30", Code.TOML_SYNTAX),
        (b"", Code.MISSING_KEY),
    ],
)
def test_text_that_is_no_manifest(content: bytes, code: Code) -> None:
    assert codes(content)[0] is code


def test_brackets_in_strings_and_comments_do_not_nest() -> None:
    brackets = "[" * 40
    manifest_of(SEED.replace("[general]", f"# {brackets}\n[general]"))
    assert codes(f"{SEED}x = '''\n{brackets}'''\ny = \"\\\"{brackets}\"\n") == [Code.UNKNOWN_KEY] * 2


def test_windows_line_breaks_move_no_span() -> None:
    text = SEED.replace("depends", "depend").replace("\n", "\r\n")
    spans = [diagnostic.span for diagnostic in diagnostics(text) if diagnostic.span]
    assert [(span.line, span.column, span.text) for span in spans] == [(11, 1, 'depend = ["torch"]')]


@settings(max_examples=80, deadline=None)
@given(st.text() | st.text(alphabet="[]{}=\"'\\.,#\n a1-"))
def test_any_text_is_a_manifest_or_an_error(text: str) -> None:
    assert accepts(text) in {True, False}


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_damage_to_a_manifest_is_an_error_or_none(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([SEED, EDITION_5]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    junk = data.draw(st.text(alphabet="[]{}=\"'\\.,#\n \t-abc15", max_size=6))
    assert accepts(text[:start] + junk + text[end:]) in {True, False}


_KEYS = st.text(alphabet='ab-_1 ."\\é', max_size=4)
_LEAVES = st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=6)
_VALUES = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3))


def _key(key: str) -> str:
    return '"' + "".join(f"\\u{ord(c):04x}" if not c.isalnum() else c for c in key) + '"'


def _inline(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_inline(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[ # ]\n" + "".join(f"{_inline(inner)},\n" for inner in value) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(c):08x}" if not c.isalnum() else c for c in value) + '"'
    return str(value).lower()


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4), st.dictionaries(_KEYS, _VALUES, max_size=3))
def test_scanner_finds_what_tomli_finds(first: dict[str, Any], second: dict[str, Any]) -> None:
    body = "".join(f" {_key(key)}\t= {_inline(value)} # '\n" for key, value in first.items())
    more = "".join(f"{_key(key)} = {_inline(value)}\n" for key, value in second.items())
    text = f"[t]\n{body}[[t1.u]]\n{more}[[t1 . u]] # x\n[t1.u.'v w']\n{more}"
    parsed = tomli.loads(text)
    assert set(locate(Source("x", text))) == paths(parsed)


@pytest.mark.parametrize(
    "path", sorted({*ROOT.glob("tests/**/*.toml"), *ROOT.glob("*/*.toml"), ROOT / "pyproject.toml"}), ids=str
)
def test_scanner_agrees_on_real_files(path: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8")
        parsed = tomli.loads(text)
    except (ValueError, UnicodeDecodeError):
        return
    found = locate(Source("x", text))
    assert set(found) == paths(parsed)
    for at, location in found.items():
        line = text.split("\n")[location.value.line - 1]
        assert line == location.value.text
        assert isinstance(at[-1], int) or at[-1] in location.key.text


def test_spans_underline_key_and_value() -> None:
    found = locate(Source("x", 'a . "b" = [1, "x"] # y\n'))
    location = found["a", "b"]
    assert (location.key.column, location.key.length) == (5, 3)
    assert (location.value.column, location.value.length) == (11, 8)
    assert (found["a", "b", 1].value.column, found["a", "b", 1].value.length) == (15, 3)


@pytest.mark.parametrize(
    ("low", "high", "version", "admitted"),
    [
        ((2, 12), None, (2, 12), True),
        ((2, 12), None, (2, 9), False),
        ((2, 12, 1), None, (2, 12), True),
        (None, (2, 12), (2, 12, 1), True),
        (None, (2, 12), (2, 13), False),
        (None, (13,), (13, 2), True),
        (None, (13, 0), (13, 2), False),
        (None, None, (2, 1), True),
    ],
)
def test_bounds(
    low: tuple[int, ...] | None, high: tuple[int, ...] | None, version: tuple[int, ...], *, admitted: bool
) -> None:
    bounds = Bounds(
        minver=Located(value=low, span=SPAN) if low else None, maxver=Located(value=high, span=SPAN) if high else None
    )
    assert bounds.admit(version) is admitted


@pytest.mark.parametrize(
    "path",
    ["", ".", "./a.cu", "a//b.cu", "a/", "..", "a/../b.cu", "/a.cu", "~/a.cu", "C:/a.cu", "a\\b.cu", ":a", "//a",
     "@r//a", "@a.cu", "a b.cu", "a*.cu", "{a,b}.cu", "-o.cu", "a/-o.cu", "é.cu", "$(id).cu", "`id`.cu", "a:b", 'a".cu',
     "%s.cu"],
)  # fmt: skip
def test_paths_that_are_refused(path: str) -> None:
    assert path_problem(path) is not None


@pytest.mark.parametrize(
    ("src", "include"),
    [
        ('["csrc/relu.cu", "csrc/relu.h"]', '["."]'),
        ('["./csrc/relu.cu", "csrc//./relu.h"]', '["./"]'),
        ('["./csrc/*.cu", "csrc/relu.h"]', '["././"]'),
    ],
)
def test_paths_as_cmake_reads_them(tmp_path: Path, src: str, include: str) -> None:
    project = relu.write(tmp_path)
    plain = relu.plan(project)
    old = 'include = ["."]\nsrc = ["csrc/relu.cu", "csrc/relu.h"]'
    assert relu.plan(project, old, f"include = {include}\nsrc = {src}").identities == plain.identities


@pytest.mark.parametrize(
    "path", ["a.cu", "a-b/c_d/e.f.cuh", ".hidden/x.h", "a+b=c~e.cpp", "..a/b..c", "a,b@c^d!.cu", "a/=,@~.h"]
)
def test_paths_that_are_admitted(path: str) -> None:
    assert path_problem(path) is None
