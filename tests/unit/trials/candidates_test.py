"""Files of candidates: what is wrong with a line, with its number; candidates of a right one, and what they share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from py_driver.__main__ import main
from py_driver.errors import Code, Diagnostic, DriverError, Span
from py_driver.trials.candidates import read_candidates
from py_driver.trials.places import errors_of
from py_driver.trials.projects import compose

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.trials.projects import Sources

GOOD = {"id": "a", "cpp_sources": "int f();", "functions": "f", "inputs": [1], "reference": "def reference(x): ..."}


FILES = "`files` is not an object of names (such as `kernel.cu`, up to 200 letters, digits, `_`, `.`, `-`) and texts"


def _line(**changed: Any) -> str:  # noqa: ANN401  (a value of JSON)
    return json.dumps({key: value for key, value in {**GOOD, **changed}.items() if value is not None})


def _faults(text: str) -> list[tuple[str, int, int, str]]:
    with pytest.raises(DriverError) as failure:
        read_candidates(text, "x.jsonl")
    spans = [fault.span or Span("", 0, 0) for fault in failure.value.diagnostics]
    assert {span.file for span in spans} == {"x.jsonl"}
    return [
        (fault.code.name, span.line, span.column, fault.message)
        for fault, span in zip(failure.value.diagnostics, spans, strict=True)
    ]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("[]", "WRONG_TYPE", "a candidate is an object: `{...}`"),
        ('{"id": "a", "id": "b"}', "BAD_VALUE", "this is not JSON: duplicate key `id`"),
        ("[" * 100_000, "BAD_VALUE", "this is not JSON: maximum recursion depth exceeded"),
        (_line(id=None), "MISSING_KEY", "`id` is missing"),
        (_line(id=1), "WRONG_TYPE", "`id` is not a text"),
        (_line(cpp_sources=None), "MISSING_KEY", "there is no source"),
        (_line(cpp_sources=""), "MISSING_KEY", "there is no source"),
        (_line(cpp_sources=None, files={"x.h": ""}), "MISSING_KEY", "there is no source"),
        (_line(cpp_sources=[1]), "WRONG_TYPE", "`cpp_sources` is not a text or a list of texts"),
        (_line(cpp_source="x"), "UNKNOWN_KEY", "`cpp_source` is not a key of a candidate"),
        (
            _line(functions=3),
            "WRONG_TYPE",
            "`functions` is not a name, a list of names, or an object of names and docs",
        ),
        (_line(extra_cflags="-O1"), "WRONG_TYPE", "`extra_cflags` is not a list of texts"),
        (
            _line(files={"../x.cpp": ""}),
            "WRONG_TYPE",
            FILES,
        ),
        (
            _line(files={"main.cpp": ""}),
            "WRONG_TYPE",
            FILES,
        ),
        (_line(files={f"{'x' * 200}.h": ""}), "WRONG_TYPE", FILES),
        (_line(id="\ud800"), "BAD_VALUE", "a text has U+D800, which no file or command line can have"),
        (
            _line(extra_cflags=["-DA=\0"]),
            "BAD_VALUE",
            "a text has U+0000, which no file or command line can have",
        ),
        (_line()[:-1] + ', "a": ' + "[" * 500 + "]" * 500 + "}", "UNKNOWN_KEY", "`a` is not a key of a candidate"),
        (_line(inputs=None), "MISSING_KEY", "`reference` is there, and `inputs` is missing"),
        (_line(reference=None), "MISSING_KEY", "`inputs` is there, and `reference` is missing"),
        (_line(functions=["f", "g"]), "MISSING_KEY", "`call` is missing"),
        (_line(tolerance=-1), "WRONG_TYPE", "`tolerance` is not a number from 0, or an object with `rtol` and `atol`"),
        (
            _line(tolerance={"tol": 1}),
            "WRONG_TYPE",
            "`tolerance` is not a number from 0, or an object with `rtol` and `atol`",
        ),
        (_line(seed=True), "WRONG_TYPE", "`seed` is not a whole number from 0"),
        (
            _line(inputs=[{"shape": [1.5]}]),
            "WRONG_TYPE",
            "`inputs` is not code, or a list of tensors (`shape`, `dtype`, `low`, `high`) and plain values",
        ),
    ],
)
def test_a_line_that_is_wrong(line: str, code: str, message: str) -> None:
    [(found, number, column, told)] = _faults(f"{_line(id='other')}\n\n{line}\n")
    assert (found, number, column) == (code, 3, 1)
    assert told.startswith(message)


def test_all_that_is_wrong_comes_at_once() -> None:
    text = "\n".join([_line(), '{"id": "b", }', _line(), _line(id="c", name=1, seed="x")])
    assert _faults(text) == [
        ("BAD_VALUE", 2, 13, "this is not JSON: illegal trailing comma before end of object")
        if "illegal" in _faults('{"id": "b", }')[0][3]
        else ("BAD_VALUE", 2, 13, "this is not JSON: expecting property name enclosed in double quotes"),
        ("BAD_VALUE", 3, 1, "the id `a` is that of line 1, too"),
        ("WRONG_TYPE", 4, 1, "`name` is not a text"),
        ("WRONG_TYPE", 4, 1, "`seed` is not a whole number from 0"),
    ]
    assert _faults("\n \n") == [("MISSING_KEY", 1, 1, "there is no candidate")]


def test_a_wrong_file_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.jsonl"
    assert main(["batch", str(file)]) == 2
    file.write_bytes(_line().encode() + b"\n\xff\n")
    assert main(["batch", str(file)]) == 2
    file.write_text(_line(name="no-name"), encoding="utf-8")
    assert main(["batch", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    for told in (
        f"no file {file}",
        f"{file}:2:1",
        "this is not UTF-8",
        f"{file}:1:1",
        "`no-name` is no name of a module",
    ):
        assert told in err
    assert main(["batch", str(file), "--timeout", "0"]) == 2
    assert "`0` is not a number of seconds above 0" in capsys.readouterr().err


def test_a_candidate() -> None:
    [first, second] = read_candidates(f"\n{_line()}\n{_line(id='b', inputs=None, reference=None)}", "x")
    assert (first.id, first.line, first.is_module) == ("a", 2, True)
    assert first.arguments == {"name": "candidate", "cpp_sources": "int f();", "functions": "f"}
    assert first.check == {"inputs": [1], "reference": "def reference(x): ...", "call": "f"}
    assert second.check == {}


def _composed(*lines: str) -> list[Sources]:
    return compose(read_candidates("\n".join(lines), "x"), "x")


def test_candidates_share_what_they_have_in_common() -> None:
    cuda = {"cuda_sources": "// 1", "files": {"k.h": "", "k.cpp": "// k"}}
    own, other, again, flagged, headed = _composed(
        _line(**cuda),
        _line(id="b", **{**cuda, "cuda_sources": "// 2"}),
        _line(id="c", **cuda, inputs=[2]),
        _line(id="d", **cuda, extra_cflags=["-DX"]),
        _line(id="e", **{**cuda, "files": {"k.h": "// h", "k.cpp": "// k"}}),
    )
    assert list(own.units) == ["main.cpp", "cuda.cu", "k.cpp"]
    same = {name for name in own.units if own.units[name] == other.units[name]}
    assert (own.family, same, own == again) == ("cuda", {"main.cpp", "k.cpp"}, True)
    assert len({own.key, other.key, flagged.key, headed.key}) == 4
    for candidate in (flagged, headed):
        assert not {*own.units.values()} & {*candidate.units.values()}
    [include] = own.include_dirs
    assert own.texts[f"{include}/k.h"] == ""
    assert own.texts[own.units["main.cpp"]].startswith("#include <torch/extension.h>\nint f();\nPYBIND11_MODULE(")


def test_what_has_no_text_of_its_own_is_not_compiled() -> None:
    [own] = _composed(_line(cpp_sources=None, functions=None, files={"m.cpp": "x"}, call="f"))
    assert (list(own.units), own.family, own.include_dirs) == (["m.cpp"], "cpu", [])


def test_errors_are_at_their_places_in_the_texts() -> None:
    lines = _line(cpp_sources=["// 1\n// 2", "// 3"], files={"k.cpp": "x", "k.h": "y"}, functions="f")
    [candidate] = read_candidates(lines, "x")
    [own] = compose([candidate], "x")
    main_file, header = own.units["main.cpp"], f"{own.include_dirs[0]}/k.h"

    def error(path: str, line: int, text: str = "", message: str = "m") -> Diagnostic:
        return Diagnostic(Code.BUILD_FAILED, message, Span(f"batch_cpu-1/{path}", line, 7), text=text)

    text = (
        f"batch_cpu-1/{main_file}:4:7: error: m\n    4 | // 3\n      |   ^\n<torch 2.13>/x.h:5:1: note: n\n"
        f"    5 | x\nbatch_cpu-1/{header}:9: note: h\n  (in 1 variant: v; for sm_90)\n  (in 2 variants: v, w)"
    )
    faults = [
        error(main_file, 2),
        error(main_file, 4, text, f"see batch_cpu-1/{main_file}:3"),
        error(main_file, 1),
        error(main_file, 5),
        error(own.units["k.cpp"], 1),
        error(header, 9),
    ]
    found = errors_of(DriverError(faults), own, candidate.arguments)
    assert [(fault["file"], fault["line"], fault["column"]) for fault in found] == [
        ("cpp_sources[0]", 1, 7),
        ("cpp_sources[1]", 1, 7),
        ("cpp_sources", None, 7),
        ("functions", None, 7),
        ("k.cpp", 1, 7),
        ("k.h", 9, 7),
    ]
    assert found[1]["message"] == "see cpp_sources[0]:2"
    assert found[1]["text"].splitlines() == [
        "cpp_sources[1]:1:7: error: m",
        "    1 | // 3",
        "      |   ^",
        "<torch 2.13>/x.h:5:1: note: n",
        "    5 | x",
        "k.h:9: note: h",
        "  (for sm_90)",
    ]
