"""The lexer of C++: what is a comment, a string or a character, and what is code."""

from __future__ import annotations

import pytest

from py_driver.plan.cpp_text import arguments, blanked, closing, code_of, masked
from py_driver.plan.includes import scan


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a // b\nc", "a     \nc"),
        ("a // b \\\n c\nd", "a       \n  \nd"),
        ("a // b \\\r\n c\r\nd", "a        \n   \nd"),
        ("a /* b\n */ c", "a     \n    c"),
        ('"a // b" c', "         c"),
        ('"a \\" // b" c', "            c"),
        ('"a \\\n b" c', "    \n    c"),
        ("'\"' a '\"'", "    a    "),
        ("case'\"': a", "case   : a"),
        ("'\\'' a '\\x41'", "     a       "),
        ("1'000 + 0x1'ff + 'a'", "1'000 + 0x1'ff +    "),
        ('R"(a " b)" c', "           c"),
        ('R"x(a )" // )x" c', "                c"),
        ('u8R"(a)" LR"(b)" c', "                 c"),
        ('FOOR"(a)" b)', "FOOR      b)"),
        ('"a', "  "),
        ("/* a", "    "),
    ],
)
def test_literals_and_comments_are_blank(text: str, code: str) -> None:
    assert code_of(text) == code


def test_kinds_are_blank_alone() -> None:
    text = 'a("b", \'c\', R"(d)"); // e'
    assert blanked(text, "comment") == 'a("b", \'c\', R"(d)");     '
    assert blanked(text, "string", "character") == 'a(   ,    , R"(d)"); // e'


def test_masked_literals_keep_their_quotes() -> None:
    text = 'f(\'a\', "b, c", R"(d)", 1\'0 /* , */);'
    plain = masked(text)
    assert plain == 'f(\' \', "    ", "    ", 1\'0        );'
    close = closing(plain, 1)
    assert close == text.index(");")
    assert [text[slice(*part)] for part in arguments(plain, 2, close) or []] == ["'a'", '"b, c"', 'R"(d)"', "1'0"]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('// a \\\n#include "b.h"\n#include "c.h"\n', ["c.h"]),
        ('auto a = \'"\'; /*\n#include "b.h"\n*/\n#include "c.h"\n', ["c.h"]),
        ('auto a = 1\'0; /*\n#include "b.h"\n*/ auto b = 1\'0;\n#include "c.h"\n', ["c.h"]),
        ('auto a = R"(\n#include "b.h"\n)";\n#include "c.h"\n', ["c.h"]),
        ('#include "a.h" // \\\\ \n#include "c.h"\n', ["a.h", "c.h"]),
    ],
)
def test_directives_are_not_those_in_comments_and_strings(text: str, paths: list[str]) -> None:
    assert [include.path for include in scan(text)] == paths
