"""Arguments as a signature and a docstring describe them, and texts of docstrings as Markdown."""

from __future__ import annotations

import ast
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from py_driver.publishing.docstring import Argument, Function, arguments, returns
from py_driver.publishing.markdown import code, pieces, prose

TEXT = '''
def f(a: torch.Tensor, /, b, *more: int, c: float = 1e-5, d=None, **rest):
    """Do it.

    Args:
        a: matrix of float16,
            with as many rows: as b.

            Nothing else.
        b (`list[tuple[int, ...]]`): a list.
        *more: numbers.
        d: what else: there is.

    Returns:
        A matrix
        and more.

    Raises:
        ValueError: never.
    """
'''


def _function(text: str) -> tuple[Function, str]:
    [node] = ast.parse(text).body
    assert isinstance(node, Function)
    return node, ast.get_docstring(node) or ""


def test_arguments_have_types_defaults_and_texts() -> None:
    node, docstring = _function(TEXT)
    assert arguments(node, docstring) == (
        Argument("a", "torch.Tensor", "", "matrix of float16, with as many rows: as b. Nothing else."),
        Argument("b", "list[tuple[int, ...]]", "", "a list."),
        Argument("*more", "int", "", "numbers."),
        Argument("c", "float", "1e-05", ""),
        Argument("d", "", "None", "what else: there is."),
        Argument("**rest", "", "", ""),
    )
    assert returns(docstring) == "A matrix and more."
    assert arguments(node, docstring, 1)[0].name == "b"


@pytest.mark.parametrize(
    "docstring",
    [
        "",
        "Do it.",
        "Args:",
        "Do it.\n\nArgs: none",
        "Do it.\n\nParameters\n----------\nx : int",
        "Returns:\n    x: int",
    ],
)
def test_what_describes_no_argument(docstring: str) -> None:
    node, _ = _function("def f(x: int): ...")
    assert arguments(node, docstring) == ()


@given(st.text(alphabet="Args:\n xReturns()`*"))
def test_any_docstring_is_read(docstring: str) -> None:
    node, _ = _function("def f(x: int): ...")
    assert all(argument.name == "x" for argument in arguments(node, inspect.cleandoc(docstring)))
    assert "\n" not in returns(docstring)


@given(st.text(alphabet="`a <b>&*_[](!)|\\#~", min_size=1).map(str.strip).filter(bool))
def test_text_in_a_list_is_text(text: str) -> None:
    """No sign of a docstring makes an element of its own, but for the spans of code that it marks."""
    rendered = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(f"- x: {prose(text)}\n")
    for tag in ("<a", "<em", "<strong", "<b>", "<table", "<h1", "<s>", "<img"):
        assert tag not in rendered
    assert rendered.count("<li>") == 1


def test_pieces_of_a_text() -> None:
    assert [*pieces("`x` of ``a`b`` and ` `` `")] == [
        ("", False),
        ("x", True),
        (" of ", False),
        ("a`b", True),
        (" and ", False),
        ("``", True),
        ("", False),
    ]


@given(st.text(alphabet="`a |<", min_size=1).map(str.strip).filter(bool))
def test_code_stays_code(text: str) -> None:
    [paragraph] = (token for token in MarkdownIt().parse(f"x {code(text)}") if token.type == "inline")
    assert [(child.type, child.content) for child in paragraph.children or ()] == [
        ("text", "x "),
        ("code_inline", text),
    ]
