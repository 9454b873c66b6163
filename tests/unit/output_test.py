"""The colours of what compilers said, and annotations for GitHub Actions."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from py_driver.errors import Code, Diagnostic, DriverError, Note, Span
from py_driver.output import Output, annotation, printable

RED, YELLOW, BOLD, GREEN, DIM, END = "\033[1;31m", "\033[33m", "\033[1m", "\033[32m", "\033[2m", "\033[0m"


def quoted(text: str, **environ: str) -> str:
    err = io.StringIO()
    Output(io.StringIO(), err, environ).quote(text)
    return err.getvalue()


@pytest.mark.parametrize(
    ("line", "coloured"),
    [
        ("a b/c.cu:1:2: error: no", f"{BOLD}a b/c.cu:1:2: {END}{RED}error{END}: no"),
        ("c.cu:1: fatal error: no", f"{BOLD}c.cu:1: {END}{RED}fatal error{END}: no"),
        ("c.cu:1:2: warning: maybe", f"{BOLD}c.cu:1:2: {END}{YELLOW}warning{END}: maybe"),
        ("<torch 2.13>/a.h:1:2: note: see", f"{BOLD}<torch 2.13>/a.h:1:2: {END}{DIM}note{END}: see"),
        ("c.cu: ptxas error   : no", f"{BOLD}c.cu: ptxas {END}{RED}error{END}   : no"),
        ("c.cu: ld.lld: error: no", f"{BOLD}c.cu: ld.lld: {END}{RED}error{END}: no"),
        ("error[E402]: no", f"{BOLD}{END}{RED}error[E402]{END}: no"),
        ("      |    ^~~~", f"{GREEN}      |    ^~~~{END}"),
        ("    ^", f"{GREEN}    ^{END}"),
        ("    3 | int error: 3", "    3 | int error: 3"),
        ("In file included from a.h:1:", "In file included from a.h:1:"),
        ("  (in 2 variants: a, b)", "  (in 2 variants: a, b)"),
    ],
)
def test_colours_follow_the_form_of_a_line(line: str, coloured: str) -> None:
    assert quoted(line, FORCE_COLOR="1") == f"{coloured}\n"
    assert quoted(line) == quoted(line, FORCE_COLOR="1", NO_COLOR="1") == f"{line}\n"


def test_what_a_compiler_printed_cannot_write_to_the_terminal() -> None:
    assert quoted("a.cu:1:2: error: \033]0;x\a") == "a.cu:1:2: error: \\u001b]0;x\\u0007\n"


def test_an_error_with_text_is_shown_as_that() -> None:
    err = io.StringIO()
    first = Diagnostic(code=Code.BUILD_FAILED, message="no", text="a.cu:1:2: error: no\n  int a", variants=("a",))
    last = Diagnostic(code=Code.BUILD_FAILED, message="the build failed: a", help="look")
    Output(io.StringIO(), err, {}).fail(DriverError([first, last]))
    assert err.getvalue() == (
        "a.cu:1:2: error: no\n  int a\nerror[E401]: the build failed: a\n = help: look\nmore: `driver explain E401`\n"
    )


def read(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as GitHub's runner reads it: its name, its properties and its data."""
    found = re.fullmatch(r"::([a-z]+)(?: ([^\r\n]*?))?::([^\r\n]*)", line)
    assert found, line
    properties = dict(pair.split("=", 1) for pair in found[2].split(",")) if found[2] else {}
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        properties = {name: value.replace(code, character) for name, value in properties.items()}
    return found[1], properties, found[3].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "r" / ".git").mkdir(parents=True)
    (tmp_path / "r" / "kernels" / "relu").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "r" / "kernels")
    return tmp_path / "r"


@pytest.mark.parametrize(
    "name",
    [
        "a,line=7.cu",
        "a::b.cu",
        "100%.cu",
        "%0A.cu",
        "%253A.cu",
        "a b.cu",
        "\N{GREEK SMALL LETTER LAMDA}.cu",
        "x=y,title=E.cu",
    ],
)
def test_an_annotation_names_the_file_as_it_is(name: str, repository: Path) -> None:
    (repository / "kernels" / "relu" / name).touch()
    line = annotation("error", "no", Span(file=f"relu/{name}", line=3, column=5), "E101")
    place = {"file": f"kernels/relu/{name}", "line": "3", "col": "5", "title": "E101"}
    assert read(line) == ("error", place, "no")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("50% of `a`, b: c", "::error title=E001::50%25 of `a`, b: c"),
        ("one\ntwo", "::error title=E001::one%0Atwo"),
        ("one\r::stop-commands::x", "::error title=E001::one\\u000d::stop-commands::x"),
        ("%0A::warning::", "::error title=E001::%250A::warning::"),
        ("\033[2J\u202e\u2028\x85", "::error title=E001::\\u001b[2J\\u202e\\u2028\\u0085"),
    ],
)
def test_a_message_stays_in_its_annotation(message: str, line: str) -> None:
    assert annotation("error", message, None, "E001") == line
    assert "\n" not in line
    assert "\r" not in line


@given(message=st.text(), title=st.text(min_size=1))
def test_every_text_comes_back(message: str, title: str) -> None:
    name, properties, data = read(annotation("notice", message, None, title))
    assert (name, properties, data) == (
        "notice",
        {"title": printable(title)},
        "\n".join(map(printable, message.split("\n"))),
    )


def test_a_file_whose_name_has_a_line_break_begins_no_command(repository: Path) -> None:
    name = "a\n::add-mask::b.cu"
    (repository / name).touch()
    line = annotation("error", "no", Span(file=f"../{name}", line=1, column=1))
    assert line == "::error file=a\\u000a%3A%3Aadd-mask%3A%3Ab.cu,line=1,col=1::no"


def test_where_annotations_point(repository: Path, tmp_path: Path) -> None:
    (repository / "kernels" / "relu" / "a.cu").touch()
    (tmp_path / "outside.cu").touch()
    inside, absolute = "../kernels/relu/../relu/a.cu", repository / "kernels" / "relu" / "a.cu"
    for file in (inside, str(absolute)):
        _, place, _ = read(annotation("warning", "no", Span(file=file, line=2, column=0)))
        assert place == {"file": "kernels/relu/a.cu", "line": "2"}
    (repository / "linked").symlink_to("kernels")
    assert "file=linked/relu/a.cu," in annotation("error", "", Span(file="../linked/relu/a.cu", line=1, column=1))
    outside = str(tmp_path / "outside.cu")
    assert annotation("error", "no", Span(file=outside, line=0, column=0)) == f"::error file={outside}::no"
    header = annotation("warning", "no", Span(file="<torch 2.13>/a.h", line=4, column=2))
    assert header == "::warning::<torch 2.13>/a.h:4:2: no"


def test_annotations_go_to_stdout_besides_what_is_printed(repository: Path) -> None:
    file = "relu/build.toml"
    (repository / "kernels" / file).touch()
    span = Span(file=file, line=2, column=3, text="a = 1")
    wrong = Diagnostic(
        code=Code.UNKNOWN_KEY, message="unknown key `a`", span=span, label="did you mean `b`?", help="see"
    )
    said = Diagnostic(code=Code.BUILD_FAILED, message="no", span=span, text="a.cu:1: error: no", variants=("x", "y"))
    notes = [Note(message="strict", span=span, code=Code.BAD_VALUE), Note(message="known", span=span)]
    printed = []
    for annotates in (False, True):
        out, err = io.StringIO(), io.StringIO()
        output = Output(out, err, {})
        output.annotates = annotates
        output.notes(notes)
        output.fail(DriverError([wrong, said]))
        printed.append((out.getvalue(), err.getvalue()))
    [(nothing, before), (lines, after)] = printed
    assert (nothing, before) == ("", after)
    place = "file=kernels/relu/build.toml,line=2,col=3"
    assert lines.splitlines() == [
        f"::warning {place}::strict",
        f"::notice {place}::known",
        f"::error {place},title=E003::unknown key `a` (did you mean `b`?)%0Ahelp: see",
        f"::error {place},title=E401::no%0Ain x, y",
    ]


def test_without_a_repository_files_are_as_they_were_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any((parent / ".git").exists() for parent in tmp_path.parents):
        pytest.skip("temporary files are in a repository")
    monkeypatch.chdir(tmp_path)
    Path("a.cu").touch()
    assert (
        annotation("error", "no", Span(file=f".{os.sep}a.cu", line=1, column=1))
        == "::error file=./a.cu,line=1,col=1::no"
    )
