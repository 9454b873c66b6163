"""The grammar of torch's op schemas (function_schema_parser.cpp and schema_type_parser.cpp of torch/csrc).

Every schema that torch accepts is accepted here. Of the schemas that torch rejects, those are accepted whose default
values another release may know.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

_TYPES = frozenset((
    "Any", "AnyClassType", "AnyEnumType", "Capsule", "ConstQuantizerPtr", "Device", "DeviceIndex", "Dimname",
    "Generator", "Layout", "MemoryFormat", "None", "NoneType", "QScheme", "Quantizer", "Scalar", "ScalarType",
    "Storage", "Stream", "SymBool", "SymInt", "Tensor", "bool", "complex", "float", "int", "str",
))  # fmt: skip
"""The names of types without arguments (torch 2.4 to 2.15)."""

_WITH_ONE = ("Future", "RRef", "Await")
_INSTEAD = {
    **dict.fromkeys(("double", "float32", "float64", "float_t", "Float", "Double", "half"), "float"),
    **dict.fromkeys(("int64_t", "int32_t", "int32", "int64", "long", "size_t", "Int", "integer", "Long"), "int"),
    **dict.fromkeys(("string", "String", "std", "char", "string_view"), "str"),
    **dict.fromkeys(("boolean", "Bool"), "bool"),
    **dict.fromkeys(("void", "Void"), "()"),
    **dict.fromkeys(("tensor", "at", "torch", "TensorList"), "Tensor"),
    "dtype": "ScalarType",
    "device": "Device",
}
"""Names of types in C++ and Python, with the schema's own."""

_NUMBERS = frozenset((
    "ConstQuantizerPtr", "DeviceIndex", "Layout", "MemoryFormat", "ScalarType", "Storage", "SymBool", "SymInt", "bool",
    "complex", "float", "int",
))  # fmt: skip
"""Types whose lists may have a default `[...]`."""

_NO_VALUES = {"true": "True", "false": "False", "null": "None", "nullptr": "None", "nullopt": "None", "none": "None"}
"""Words that are not values, with the intended value."""

_WORDS = frozenset(("Mean", "complex", "contiguous_format", "float", "long", "strided"))
"""The words that torch accepts as values of any type; for some types, a release may know further words."""

_PLAIN = ("Generator", "Scalar", "SymInt", "Tensor", "bool", "float", "int", "str")
"""Types without further words."""

_OF_TORCH = ("aten", "prim")
"""Namespaces in whose schemas a word may stand for any type."""

_RESERVED = frozenset((
    "and", "as", "assert", "break", "class", "continue", "def", "del", "elif", "Ellipsis", "else", "False", "for",
    "global", "if", "import", "in", "is", "None", "NoneType", "not", "or", "pass", "raise", "return", "True", "while",
    "with",
))  # fmt: skip

_TOKEN = re.compile(
    r"(?P<number>(?:0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*(?:[pP][+-]?\d+)?|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)j?)"
    r"|(?P<string>\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"(?:[^\"\\\n]|\\[\s\S])*\"|'(?:[^'\\\n]|\\[\s\S])*')"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>->|\.\.\.|[\s\S])",
    re.ASCII,
)
_BLANK = re.compile(r"(?:[^\S\n]|#[^\n]*|\\\n)+")
_END = ""


class SchemaProblem(NamedTuple):
    """An error in a schema.

    Attributes:
        start: the start of the faulty part, in characters.
        end: the end of that part.
        message: the message, as the end of a sentence.
    """

    start: int
    end: int
    message: str


class _Wrong(Exception):  # noqa: N818  (it never leaves this module)
    def __init__(self, problem: SchemaProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def schema_problem(text: str) -> SchemaProblem | None:
    """The reason why torch rejects a text as a schema, `name(arguments) -> returns`; None if it accepts it."""
    return _problem(text, _Parser.schema)


def name_problem(text: str) -> SchemaProblem | None:
    """The reason why torch rejects a text as the name of an op, `name` or `name.overload`; None if it accepts it."""
    return _problem(text, _Parser.name)


def _problem(text: str, what: Callable[[_Parser], None]) -> SchemaProblem | None:
    parser = _Parser(text)
    try:
        what(parser)
        parser.finish()
    except _Wrong as wrong:
        return wrong.problem
    return None


def _tokens(text: str) -> list[_Token]:
    """The tokens of a text; a line break ends a declaration if no bracket is open, otherwise it counts as a blank."""
    found: list[_Token] = []
    depth, at = 0, len(text) - len(text.lstrip())
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
            continue
        token = _TOKEN.match(text, at)
        if token is None:
            break
        kind, sign = token.lastgroup or "", token[0]
        at = token.end()
        depth += (kind == "sign" and sign in {"(", "["}) - (kind == "sign" and sign in {")", "]"})
        if sign != "\n":
            found.append(_Token("reserved" if sign in _RESERVED else kind, sign, token.start(), at))
        elif depth <= 0:
            found.append(_Token("line", "the end of the line", token.start(), at))
    return [*found, _Token(_END, "the end", len(text), len(text))]


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._any_type = False
        self._has_default = False
        self._by_keyword = False

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _fail(self, message: str, token: _Token | None = None) -> NoReturn:
        token = token or self._now
        raise _Wrong(SchemaProblem(token.start, token.end, message))

    def _next(self) -> _Token:
        token = self._now
        self._at += 1
        return token

    def _is(self, sign: str) -> bool:
        return self._now.kind in {"sign", "reserved"} and self._now.text == sign

    def _take(self, sign: str) -> bool:
        if self._is(sign):
            self._at += 1
            return True
        return False

    def _need(self, sign: str, after: str) -> None:
        if not self._take(sign):
            self._fail(f"`{sign}` is expected after {after}, not {_shown(self._now)}")

    def _name(self, what: str) -> _Token:
        if self._now.kind == "reserved":
            self._fail(f"`{self._now.text}` is a reserved word of torch and cannot be {what}")
        if self._now.kind != "name":
            self._fail(f"{what} is expected, not {_shown(self._now)}")
        return self._next()

    def finish(self) -> None:
        """Require the end; further lines are another declaration, which torch does not read."""
        if self._now.kind not in {_END, "line"}:
            self._fail(f"the end is expected, not {_shown(self._now)}")

    def name(self) -> None:
        """`namespace::name.overload`, where only the name is required."""
        first = self._name("the name of the op")
        if self._take(":"):
            self._any_type = first.text in _OF_TORCH
            self._need(":", "`:`")
            self._name("the name of the op")
        if self._take("."):
            overload = self._name("the name of the overload")
            if overload.text == "default" or overload.text.startswith("__"):
                self._fail(f"torch reserves `{overload.text}`; it cannot be the name of an overload", overload)

    def schema(self) -> None:
        """A name, arguments in brackets, and the results."""
        self.name()
        if not self._is("("):
            self._fail(f"the arguments are expected in brackets, not {_shown(self._now)}")
        self._list(self._argument)
        self._need("->", "the arguments")
        if self._take("..."):
            return
        if self._is("("):
            self._list(self._return)
        else:
            self._return()

    def _list(self, element: Callable[[], None]) -> None:
        self._need("(", "this")
        if not self._take(")"):
            element()
            while self._take(","):
                element()
            if not self._take(")"):
                self._fail(f"`,` or `)` is expected, not {_shown(self._now)}")

    def _argument(self) -> None:
        if self._take("*"):
            self._by_keyword = True
            return
        if self._rest():
            return
        value = self._typed()
        name = self._name("the name of an argument")
        if self._take("="):
            self._has_default = True
            self._default(value)
        elif self._has_default and not self._by_keyword and value and not value.endswith("]"):
            self._fail(f"`{name.text}` needs a default, as an argument before it has one", name)

    def _rest(self) -> bool:
        """Whether `...` was here, which must be the last argument."""
        if not self._take("..."):
            return False
        if not self._is(")"):
            self._fail(f"`...` must be the last, and {_shown(self._now)} follows")
        return True

    def _return(self) -> None:
        if not self._rest():
            self._typed()
            if self._now.kind == "name":
                self._next()

    def _typed(self) -> str:
        """A type as text, with `[N]` for a list with a length; without the arguments of types."""
        name = self._type()
        if self._take("["):
            if self._now.kind != "number":
                self._fail(f"a number or `]` is expected after `[`, not {_shown(self._now)}")
            self._next()
            self._need("]", "the length")
            self._alias()
            return f"{name}[N]" + "?" * self._take("?")
        return name

    def _type(self) -> str:
        name = ""
        if self._is("("):
            self._list(self._inner)
        elif self._now.kind == "name" and self._now.text in {*_WITH_ONE, "Dict", "Union"} and self._follows("("):
            self._next()
            self._list(self._inner)
            self._alias()
        elif self._now.kind == "name" and self._now.text == "__torch__":
            self._next()
            while self._take("."):
                self._name("a part of the name of a class")
        else:
            name = self._base()
            self._alias()
        while True:
            if self._is("[") and self._follows("]"):
                self._at += 2
                self._alias()
                name += "[]"
            elif self._take("?"):
                name += "?"
            else:
                return name

    def _inner(self) -> None:
        self._type()

    def _base(self) -> str:
        token = self._now
        if token.kind == "reserved" and token.text in _TYPES:
            return self._next().text
        if token.kind not in {"name", "reserved"}:
            self._fail(f"a type is expected, not {_shown(token)}")
        if token.text not in _TYPES and not (self._any_type and token.text[:1].islower()):
            instead = _INSTEAD.get(token.text)
            self._fail(f"there is no type `{token.text}`" + (f": write `{instead}`" if instead else ""))
        return self._next().text

    def _follows(self, sign: str) -> bool:
        following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else None
        return following is not None and following.text == sign

    def _alias(self) -> None:
        """`(a)`, `(a!)`, `(a! -> a|b)` or `!`."""
        if self._take("("):
            self._sets()
            self._take("!")
            if self._take("->"):
                self._sets()
            self._need(")", "the alias")
        else:
            self._take("!")

    def _sets(self) -> None:
        if not self._take("*"):
            self._name("an alias")
        if self._take("|"):
            self._sets()

    def _default(self, of: str) -> None:
        if of in {"Tensor", "Generator"} and not self._is("None"):
            self._fail(f"a {of} can only be `None` by default, not {_shown(self._now)}")
        if of.endswith("]"):
            self._list_default(of, of.removesuffix("[]").removesuffix("[N]"))
            return
        word = self._now
        if self._is("["):
            self._fail("only a list without `?` can be `[...]` by default")
        if word.kind == "name" and word.text not in {*_WORDS, *_NO_VALUES} and of.removesuffix("?") in _PLAIN:
            self._fail(f"torch knows no value `{word.text}`")
        self._constant()

    def _list_default(self, of: str, base: str) -> None:
        if base not in _NUMBERS:
            self._fail(f"torch accepts no default for `{of}`")
        if self._take("["):
            if not self._take("]"):
                self._element(base)
                while self._take(","):
                    self._element(base)
                self._need("]", "the values")
            return
        number = " or a number" if of.endswith("[N]") else ""
        if not number or (self._now.kind == "name" and self._now.text not in _NO_VALUES):
            self._fail(f"`{of}` can only be `[...]`{number} by default, not {_shown(self._now)}")
        self._element(base)

    def _element(self, base: str) -> None:
        """A value in a list: a number, `True`, `False` or a word."""
        token = self._now
        value = self._tokens[self._at + 1] if self._is("-") else token
        truth = token.text in {"True", "False"}
        wrong = token.kind == "string" or self._is("None")
        wrong = wrong or (base == "bool" and not truth and token.text not in _NO_VALUES)
        wrong = wrong or (base in {"int", "SymInt", "float"} and truth)
        if value.kind == "number" and base in {"int", "SymInt"}:
            wrong = wrong or "." in value.text or value.text.endswith("j")
        if wrong:
            self._fail(f"{_shown(value)} cannot be in a list of `{base}`", value)
        self._constant()

    def _constant(self) -> None:
        minus = self._take("-")
        token = self._now
        words = {"True", "False", "None"}
        if token.text in _NO_VALUES:
            self._fail(f"`{token.text}` is not a value: write `{_NO_VALUES[token.text]}`")
        if token.kind == "number" or (not minus and (token.kind in {"string", "name"} or token.text in words)):
            self._next()
        else:
            self._fail(f"a value is expected, not {_shown(token)}")


def _shown(token: _Token) -> str:
    return token.text if token.kind in {_END, "line"} else f"`{token.text}`"
