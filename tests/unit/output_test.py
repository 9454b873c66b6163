"""The colours of what compilers said."""

from __future__ import annotations

import io

import pytest

from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.output import Output

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
