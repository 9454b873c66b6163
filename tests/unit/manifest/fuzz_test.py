"""Any text as build.toml, and as a source, gives an answer or an error: soon, and never a traceback."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest
import tomli
from fuzz import CORPUS, SECONDS, check, make, make_project, trials
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from py_driver.errors import DriverError
from py_driver.manifest.keys import Kind
from py_driver.manifest.reader import read
from py_driver.manifest.section import ERROR_LIMIT
from py_driver.manifest.tables import TABLES
from py_driver.manifest.text import PART_LIMIT, SIZE_LIMIT
from py_driver.plan.includes import first_use, scan

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.manifest.keys import Key, Table

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
MEGABYTE = 1 << 20

_any_number = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

GENERAL = '[general]\nname = "relu"\nversion = 1\nedition = 5\nlicense = "mit"\nbackends = ["cpu", "cuda"]\n'
TORCH = '[torch]\nsrc = ["torch-ext/torch_binding.cpp"]\n'
EARLY = '[general]\nname = "relu"\n[torch]\nsrc = ["torch-ext/torch_binding.cpp"]\n'
CPU = '[kernel.c]\nbackend = "cpu"\ndepends = []\nsrc = ["relu/relu.cpp"]\n'
CUDA = '[kernel.g]\nbackend = "cuda"\ndepends = []\nsrc = ["relu/relu.cu"]\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project"))


def _used(table: Table, key: Key, values: dict[str, Any]) -> bool:
    """Whether a parsed file has a key."""
    found: list[Any] = [values]
    if table.path == "kernel-depends":
        places = [values["general"], *(value for value in values["general"].values() if isinstance(value, dict))]
        found = [entry for table in places for entry in table.get("kernel-depends", [])]
    elif table.path:
        for part in table.path.split("."):
            found = (
                [table[part] for table in found if part in table]
                if part != "*"
                else [*found[0].values()]
                if found
                else []
            )
    return any(key.name in table for table in found)


def test_corpus_has_every_key_of_every_edition_and_is_right() -> None:
    unused = {(table.path, key.name, key.since, key.until) for table in TABLES for key in table.keys}
    for path in sorted(CORPUS.glob("*.toml")):
        manifest, findings = read(path.read_bytes(), path.name)
        assert findings.diagnostics() == ()
        assert path.name.startswith(f"edition{manifest.edition}")
        values = tomli.loads(path.read_text(encoding="utf-8"))
        unused -= {
            (table.path, key.name, key.since, key.until)
            for table in TABLES
            for key in table.keys
            if key.is_in(manifest.edition) and _used(table, key, values)
        }
    assert unused == set()


def test_the_corpus_can_be_built_but_for_what_is_written_in_rust(project: Path) -> None:
    refused = [path.name for path in CORPUS.glob("*.toml") if check(project, path.read_bytes(), as_json=False)]
    assert refused == ["edition6-tvm-ffi.toml"]


def test_seeded_inputs(project: Path) -> None:
    tally = trials(range(EXAMPLES), project)
    assert tally.failures == []
    assert set(tally.codes) == {0, 2}
    assert make(1) == make(1)


@_any_number
@given(content=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes(project: Path, content: bytes) -> None:
    check(project, content, as_json=True)


_SCALARS = st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.times()


def _toml(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, str):
        return '"' + "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in value) + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml(key)} = {_toml(inner)}' for key, inner in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(key: Key) -> st.SearchStrategy[str]:
    """Values for a key: the example, a choice, or anything."""
    good = [key.example] * bool(key.example) + [f'"{choice}"' for choice in key.choices] + ["[]", "{}"]
    text = st.text(max_size=8).map(_toml)
    shaped = st.from_regex(key.pattern, fullmatch=True).map(_toml) if key.pattern else text
    listed = st.lists(shaped | st.sampled_from(good), max_size=3).map(lambda some: f"[{', '.join(some)}]")
    anything = st.recursive(
        _SCALARS, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=3), one, max_size=3)
    )
    return st.sampled_from(good) | listed | shaped | anything.map(_toml)


@st.composite
def _documents(draw: st.DrawFn) -> str:
    """Documents of declared tables with declared keys, and a few others."""
    lines = []
    for table in draw(st.lists(st.sampled_from(TABLES[1:]), max_size=6, unique_by=lambda one: one.path)):
        lines.append(f"[{table.path.replace('*', 'a')}]")
        keys = {key.name: key for key in table.keys if key.kind not in {Kind.TABLE, Kind.TABLES}}
        names = draw(st.lists(st.sampled_from(sorted(keys)), max_size=6, unique=True))
        lines += [f"{name} = {draw(_values(keys[name]))}" for name in names]
        lines.append("other = 1\n" * draw(st.booleans()))
    return "\n".join(lines)


@_any_number
@given(text=_documents(), as_json=st.booleans())
def test_any_values(project: Path, text: str, *, as_json: bool) -> None:
    check(project, text.encode("utf-8"), as_json=as_json)


def _fill(head: str, unit: str, tail: str = "", *, limit: int = SIZE_LIMIT) -> str:
    """A text of many units, each with its number for `@`, up to a size."""
    count = (limit - len(head) - len(tail)) // len(unit.replace("@", "00000"))
    return head + "".join(unit.replace("@", str(i)) for i in range(count)) + tail


def _parts(head: str, unit: str, tail: str = "") -> str:
    """A text of as many units as are read."""
    symbols = sum(unit.count(bracket) for bracket in "[{=,.")
    count = (PART_LIMIT - sum((head + tail).count(bracket) for bracket in "[{=,.")) // symbols
    return head + "".join(unit.replace("@", str(i)) for i in range(count)) + tail


_MOST = SIZE_LIMIT - 4096
"""About as many characters as are read."""

_BOMBS = {
    "dotted keys": _fill("", f"k@.{'a.' * 14}a = 1\n"),
    "dotted headers": _fill("", f"[k@.{'a.' * 13}a]\n"),
    "as many dotted headers as are read": _parts("", f"[k@.{'a.' * 13}a]\n"),
    "tables in an array": _parts("", "[[a]]\n"),
    "brackets": "x = " + "[" * _MOST,
    "sixteen brackets": _parts("x = [", "[" * 14 + "]" * 14 + ",", "]"),
    "one line": _fill("x = [", "1,", "]"),
    "as much in one line as is read": _parts("x = [", "'                   ',", "]"),
    "wrong types in one line": _parts(f"{GENERAL}[torch]\nsrc = [", "1                     ,", "]"),
    "unknown keys": _parts(f"{GENERAL}[torch]\n", "sr@ = 1\n"),
    "missing files": _parts(f"{GENERAL}[torch]\nsrc = [", '"a@.h",', "]"),
    "long missing file": f'{GENERAL}[torch]\nsrc = ["{"a/" * (_MOST // 2)}a.h"]',
    "long missing files": f"{GENERAL}[torch]\nsrc = [" + "".join(f'"{i}/{"a/" * 240}a.h",' for i in range(90)) + "]",
    "one file": _parts(f"{GENERAL}[torch]\nsrc = [", '"relu/relu.h",', "]"),
    "one directory": _parts(f"{GENERAL}{CPU}{TORCH}include = [", '"relu",', "]"),
    "flags": _parts(f"{GENERAL}{CPU}{TORCH}cxx-flags = [", '"-w",', "]"),
    "long flag": f'{GENERAL}{CPU}{TORCH}cxx-flags = ["-D{"a" * _MOST}"]',
    "long bad flag": f'{GENERAL}{CPU}{TORCH}cxx-flags = ["-std=c++{"a" * _MOST}!"]',
    "long name": f"{GENERAL.replace('relu', 'a' * _MOST)}{TORCH}",
    "long section name": f"{GENERAL}{TORCH}[kernel.{'a' * _MOST}]\n",
    "errors in a section of a long name": _fill(f"{GENERAL}{TORCH}[kernel.{'a' * (_MOST // 4 * 3)}]\n", "k@ = 1\n"),
    "long address": GENERAL + f'upstream = "{"a@" * (_MOST // 2)}:"',
    "long version": f'{GENERAL}{TORCH}minver = "{"1." * (_MOST // 2)}"',
    "long architecture": f'{GENERAL}[torch-noarch]\nrocm-archs = ["gfx900{":a+" * (_MOST // 3)}!"]',
    "sections for CUDA": _parts(GENERAL + TORCH, CUDA.replace(".g", ".g@")),
    "sections with archs": _parts(GENERAL + TORCH, CUDA.replace(".g", ".g@") + 'cuda-capabilities = ["8.0", "9.0a"]\n'),
    "sections for the CPU": _parts(GENERAL + TORCH, CPU.replace(".c", ".c@")),
    "sections for Metal": _parts(GENERAL + TORCH, CPU.replace(".c", ".c@").replace('"cpu"', '"metal"')),
    "sections of edition 1": _parts(EARLY, "[kernel.a@]\ndepends = []\nsrc = []\n"),
    "sections of both halves": _parts(EARLY, '[kernel.a@]\nlanguage = "cuda-hipify"\ndepends = []\nsrc = []\n'),
    "sections without keys": _parts(EARLY, "[kernel.a@]\n"),
    "sections that are none": _parts(f"{GENERAL}{TORCH}[kernel]\n", "a@ = 1\n"),
    "dependencies": _parts(f"{GENERAL}kernel-depends = [", '{ repo-id = "a", version = 1 },', f"]\n{TORCH}{CPU}"),
    "huge integer": "a = " + "9" * _MOST,
    "huge hexadecimal integer": "a = 0x" + "f" * _MOST,
    "huge float": f"a = {'1' * (_MOST // 3)}.{'1' * (_MOST // 3)}e{'1' * (_MOST // 3)}",
    "strings that do not end": '"\\' * (_MOST // 2),
    "long strings that do not end": '"""\\' * (_MOST // 4),
    "escapes": 'a = "' + r"\u0041" * (_MOST // 6) + '"',
    "bidirectional": GENERAL + '[torch]\nsrc = ["' + "\u202e" * (_MOST // 3) + '"]',
    "line breaks": "\n" * SIZE_LIMIT,
    "carriage returns": "\r" * SIZE_LIMIT,
    "comments": "#\n" * (SIZE_LIMIT // 2),
    "too large": "#" * (SIZE_LIMIT + 1),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", _BOMBS)
def test_bombs(project: Path, name: str) -> None:
    check(project, _BOMBS[name].encode(), as_json=False)


def test_no_more_errors_than_can_be_read() -> None:
    with pytest.raises(DriverError) as caught:
        read(_BOMBS["unknown keys"].encode(), "build.toml")
    assert len(caught.value.diagnostics) == ERROR_LIMIT + 1
    assert caught.value.diagnostics[-1].message == "there are more errors; these are the first 100 that were found"


_MIXES = [
    '"',
    "'",
    "\\",
    "/*",
    "*/",
    "//",
    'R"(',
    ')"',
    'R"x(',
    ')x"',
    "\n",
    "#include ",
    "<a>",
    '"a"',
    "#if\n",
    "#endif\n",
]


@_any_number
@given(text=st.text(max_size=200) | st.lists(st.sampled_from(_MIXES) | st.text(max_size=3), max_size=60).map("".join))
def test_includes_of_any_source(text: str) -> None:
    for include in scan(text):
        assert text[include.start :].startswith(include.path)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "unit",
    ['"', "'", "\\", '"\\', "/", "/*", "/*/", "/*\n", 'R"(', 'R"x(', 'R"a("b(', f'R"{"a" * 16}', ')"', "#", "#include ",
     '#include "a"\n', "#include <", "#if\n", " ", " \n", "# ", '"\n', "\\\n", 'u8R"(', "'\\'", ")x",
     "defined ", "defined(X)", '/"\'R(\\*\n'],
)  # fmt: skip
def test_time_to_scan_a_megabyte_is_not_quadratic(unit: str) -> None:
    for start in ("", '"'):
        text = start + unit * (MEGABYTE // len(unit))
        begin = time.process_time()
        scan(text)
        first_use(f"{text} X", "X")
        assert time.process_time() - begin < SECONDS


@pytest.mark.parametrize("line", ['#include "missing.h"\n', "#include <torch/all.h>\n", '#include "relu.h"\n'])
def test_a_source_of_many_includes(tmp_path: Path, line: str) -> None:
    make_project(tmp_path)
    (tmp_path / "relu" / "relu.cpp").write_text(line * 5000, encoding="ascii")
    check(tmp_path, f"{GENERAL}{TORCH}{CPU}".encode(), as_json=True)
