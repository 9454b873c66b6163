"""Compatibility of a function or op with calls of its old version, by the parameters of both. Pure."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.inspecting.python_api import ASYNC, STATIC

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

_ARGUMENT: Final = re.compile(r"(?P<type>.+?)\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.+))?", re.DOTALL)
_SCHEMA: Final = re.compile(r"(?P<name>[\w:.]+)\s*\((?P<arguments>.*)\)\s*->\s*(?P<returns>.+)", re.DOTALL)
_WIDER: Final = {("int", "SymInt"), ("float", "Scalar"), ("int", "Scalar"), ("int[]", "SymInt[]")}
_PLACE, _POSITIONAL, _KEYWORD, _REST, _WORDS = "place", "positional", "keyword", "*", "**"
_BY_PLACE: Final = {_PLACE, _POSITIONAL}
_OPENING, _CLOSING = "([{", ")]}"


class Parameter(NamedTuple):
    """A parameter of a function.

    Attributes:
        name: its name.
        type: its type, as written; empty without one.
        default: its default, as written; None for a required parameter.
        kind: `positional`, `place` for positional-only, `keyword` for keyword-only, `*` or `**` for the rest.
    """

    name: str
    type: str
    default: str | None
    kind: str


class Call(NamedTuple):
    """The interface of a function for its callers.

    Attributes:
        parameters: the parameters, in order.
        returns: the type of its result, as written; empty without one.
        checks_types: whether another type of a parameter or result makes a call fail, as with ops.
        is_async: whether its result must be awaited.
        is_static: whether it is a method of the class, not of an instance.
    """

    parameters: tuple[Parameter, ...]
    returns: str
    checks_types: bool
    is_async: bool = False
    is_static: bool = False


def python_call(signature: str) -> Call | None:
    """The call of a Python function; None if it cannot be read.

    Args:
        signature: `relu(x: torch.Tensor, out=None) -> torch.Tensor`, `Inner.run(x)`.
    """
    try:
        plain = signature.removeprefix(STATIC)
        bare = plain.removeprefix(ASYNC)
        owner, bracket, rest = bare.partition("(")
        [node] = ast.parse(f"def {owner.rpartition('.')[2]}{bracket}{rest}: ...").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    if not isinstance(node, ast.FunctionDef):
        return None
    return Call(
        (*_of_python(node.args),),
        _written(node.returns),
        checks_types=False,
        is_async=bare != plain,
        is_static=plain != signature,
    )


def _of_python(arguments: ast.arguments) -> Iterator[Parameter]:
    """The parameters of a Python function."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [ast.unparse(d) for d in arguments.defaults]
    for argument, default in zip(positional, defaults, strict=True):
        kind = _PLACE if argument in arguments.posonlyargs else _POSITIONAL
        yield Parameter(argument.arg, _written(argument.annotation), default, kind)
    if arguments.vararg:
        yield Parameter(arguments.vararg.arg, "", "", _REST)
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield Parameter(argument.arg, _written(argument.annotation), ast.unparse(value) if value else None, _KEYWORD)
    if arguments.kwarg:
        yield Parameter(arguments.kwarg.arg, "", "", _WORDS)


def _written(node: ast.expr | None) -> str:
    return ast.unparse(node) if node else ""


def op_call(schema: str) -> tuple[str, Call] | None:
    """The name of an op and its call; None if the text is not a schema.

    Args:
        schema: `relu(Tensor! out, Tensor input, *, float slope=0.1) -> ()`.
    """
    found = _SCHEMA.fullmatch(schema.strip())
    if not found:
        return None
    parameters, kind = [], _POSITIONAL
    for text in _split(found["arguments"]):
        if text == _REST:
            kind = _KEYWORD
            continue
        argument = _ARGUMENT.fullmatch(text)
        if not argument:
            return None
        parameters.append(Parameter(argument["name"], argument["type"], argument["default"], kind))
    return found["name"], Call(tuple(parameters), " ".join(found["returns"].split()), checks_types=True)


def _split(text: str) -> list[str]:
    """The parts of a list, split at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def breaks(old: Call, new: Call) -> Iterator[str]:
    """The reasons why calls of the old function fail with the new one, or change their meaning.

    Args:
        old: the old interface.
        new: the new interface.
    """
    known = {parameter.name: parameter for parameter in new.parameters}
    kinds = {parameter.kind for parameter in new.parameters}
    before = [parameter for parameter in old.parameters if parameter.kind in _BY_PLACE]
    after = [parameter for parameter in new.parameters if parameter.kind in _BY_PLACE]
    yield from _of_kind(old, new)
    # A positional-only parameter is the same under another name.
    renamed = {was.name: now for was, now in zip(before, after, strict=False) if was.kind == _PLACE}
    for parameter in old.parameters:
        now = renamed.get(parameter.name) or known.get(parameter.name)
        if parameter.kind in {_REST, _WORDS}:
            if parameter.kind not in kinds:
                yield f"`{parameter.kind}{parameter.name}` is removed"
        elif now is None:
            if _WORDS not in kinds or parameter.kind in _BY_PLACE:
                yield f"`{parameter.name}` is removed"
        else:
            yield from _of_parameter(parameter, now, old)
    yield from _of_places(before, after, renamed, has_rest=any(each.kind == _REST for each in old.parameters))
    same = {parameter.name for parameter in old.parameters} | {parameter.name for parameter in renamed.values()}
    for parameter in new.parameters:
        if parameter.name not in same and parameter.default is None:
            yield f"`{parameter.name}` is new and required"
    if old.checks_types and old.returns != new.returns:
        yield f"it returns `{new.returns}` instead of `{old.returns}`"


def _of_kind(old: Call, new: Call) -> Iterator[str]:
    """Changes of a function besides its parameters."""
    if old.is_async != new.is_async:
        yield "its result must be awaited" if new.is_async else "its result cannot be awaited any more"
    if old.is_static and not new.is_static:
        yield "it is not called on the class any more"


def _of_places(
    before: Sequence[Parameter], after: Sequence[Parameter], renamed: Container[str], *, has_rest: bool
) -> Iterator[str]:
    """Changes in the order of parameters.

    Args:
        before: the old positional parameters.
        after: the new positional parameters.
        renamed: the names of parameters that may be renamed.
        has_rest: whether the old function accepts further arguments.
    """
    names, now_names = [parameter.name for parameter in before], [parameter.name for parameter in after]
    kept = [parameter.name for parameter in before if parameter.name in now_names and parameter.name not in renamed]
    moved = [name for name in kept if names.index(name) != now_names.index(name)]
    if moved:
        yield f"`{moved[0]}` has another position"
    if has_rest and len(after) > len(before):
        yield f"`{after[len(before)].name}` takes the place of a further argument"


def _of_parameter(old: Parameter, new: Parameter, call: Call) -> Iterator[str]:
    """Changes of a parameter that both functions have."""
    if old.kind in _BY_PLACE and new.kind == _KEYWORD:
        yield f"`{old.name}` is a keyword only"
    if old.kind in {_POSITIONAL, _KEYWORD} and new.kind == _PLACE:
        yield f"`{old.name}` is no keyword any more"
    if new.kind in {_REST, _WORDS}:
        yield f"`{old.name}` is removed"
    if old.default is not None and new.default is None:
        yield f"`{old.name}` has no default any more"
    elif old.default is not None and old.default != new.default:
        yield f"`{old.name}` is `{new.default}` by default instead of `{old.default}`"
    wider = new.type == f"{old.type}?" or (old.type, new.type) in _WIDER
    if call.checks_types and old.type != new.type and not wider:
        yield f"`{old.name}` is `{new.type}` instead of `{old.type}`"
