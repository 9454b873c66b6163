"""The public API of a kernel: functions and classes of its Python package, schemas of its ops, parsed from text. Pure.

Nothing is imported or run, so this works for every backend and without torch.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.plan.includes import seen
from py_driver.publishing.docstring import Argument, Function, arguments, returns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_TOKEN: Final = re.compile(
    r'R"(?P<mark>[^\s()\\"]{0,16})\((?P<raw>[\s\S]*?)\)(?P=mark)"'
    r'|"(?P<text>(?:[^"\\\n]|\\.)*)"'
    r"|(?P<blank>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|\s+)"
    r"|'(?:[^'\\\n]|\\.)+'|\w+|::|[\s\S]"
)
"""A string, raw or not, a comment or blanks, a character, a word, or any other character."""

_OPENINGS: Final = (("def", "("), ("def", "(", "torch", "::", "schema", "("))
"""The tokens in front of the schema of an op."""

_LONGEST: Final = max(map(len, _OPENINGS))

_INIT: Final = "__init__.py"
_TEST: Final = "test_"
_METHODS: Final = ("__init__", "forward")


class Offer(NamedTuple):
    """A function or class that a package offers.

    Attributes:
        signature: `relu(x: torch.Tensor) -> torch.Tensor`; for a class also a line for its constructor and `forward`.
        summary: the first paragraph of its docstring, in one line; empty if it has none.
        name: as the package exports it.
        arguments: the arguments of the function or constructor; empty if its docstring describes none.
        returns: the docstring's description of the return value, in one line; empty without one, and for a class.
    """

    signature: str
    summary: str
    name: str
    arguments: tuple[Argument, ...] = ()
    returns: str = ""


def schemas(sources: Iterable[str], backends: Iterable[str]) -> list[str]:
    """The schemas of the ops that C++ sources define, `relu(Tensor! out, Tensor input) -> ()`, each once.

    The preprocessor does not run: schemas inside an `#if` count unless its condition holds for no backend, and schemas
    from macros do not count.

    Args:
        sources: the text of the sources of a binding.
        backends: that they are compiled for.
    """
    found = []
    for source in (seen(text, backends) for text in sources):
        before: tuple[str, ...] = ()
        literals: list[str] = []
        for token in _TOKEN.finditer(source):
            if token["blank"]:
                continue
            text = token["raw"] if token["text"] is None else re.sub(r"\\(.)", r"\1", token["text"])
            if text is not None and (literals or any(before[-len(opening) :] == opening for opening in _OPENINGS)):
                literals.append(text)
                continue
            found += [" ".join("".join(literals).split())] if literals else []
            literals = []
            before = (*before[-_LONGEST:], token[0])
    return list(dict.fromkeys(found))


def offers(files: Mapping[str, str]) -> list[Offer]:
    """The functions and classes in a package's `__all__`, or else its definitions and imports without `_`.

    Names without a definition in the package are left out.

    Args:
        files: the texts of its Python files by their paths within the package.
    """
    modules = {path: tree for path, text in files.items() if (tree := _parsed(text)) is not None}
    if _INIT not in modules:
        return []
    found = []
    for name in _public(modules[_INIT]):
        node = _definition(modules, _INIT, name, set())
        if node is not None:
            with suppress(RecursionError):
                found.append(_offer(node, name))
    return found


def summary(files: Mapping[str, str]) -> str:
    """The first paragraph of a Python package's docstring, in one line; empty if it has none.

    Args:
        files: the texts of its Python files by their paths within the package.
    """
    module = _parsed(files.get(_INIT, ""))
    return _summary(module) if module else ""


def tests(text: str) -> list[str]:
    """The tests in a pytest file: functions `test_*`, and those of classes `Test*`, as pytest names them.

    Args:
        text: the text of the file.
    """
    module = _parsed(text)
    found = []
    for node in module.body if module else ():
        if isinstance(node, Function) and node.name.startswith(_TEST):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef) and node.name.startswith(_TEST.title().rstrip("_")):
            own = (method for method in node.body if isinstance(method, Function) and method.name.startswith(_TEST))
            found += [f"{node.name}::{method.name}" for method in own]
    return found


def _parsed(text: str) -> ast.Module | None:
    """Parse a module; None if this Python cannot."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _public(module: ast.Module) -> list[str]:
    """The names that a package offers, in its order."""
    stated: list[str] | None = None
    names: list[str] = []
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                more = _strings(node.value)
                stated = [*(stated or ()), *more] if isinstance(node, ast.AugAssign) else more
        elif isinstance(node, Function | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.ImportFrom) and node.level == 1:
            names += [alias.asname or alias.name for alias in node.names]
    return stated or [name for name in dict.fromkeys(names) if not name.startswith("_")]


def _strings(value: ast.expr | None) -> list[str]:
    """The texts of a literal list; empty for any other expression."""
    return [
        element.value
        for element in getattr(value, "elts", ())
        if isinstance(element, ast.Constant) and isinstance(element.value, str)
    ]


def _definition(
    modules: Mapping[str, ast.Module], path: str, name: str, seen: set[tuple[str, str]]
) -> Function | ast.ClassDef | None:
    """The function or class that a name in a module refers to, through imports within the package."""
    found: Function | ast.ClassDef | None = None
    if path not in modules or (path, name) in seen:
        return None
    seen.add((path, name))
    for node in modules[path].body:
        if isinstance(node, Function | ast.ClassDef) and node.name == name:
            found = node
        elif isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    found = next((d for d in _imported(modules, path, node, alias.name, seen) if d), found)
    return found


def _imported(
    modules: Mapping[str, ast.Module], path: str, node: ast.ImportFrom, name: str, seen: set[tuple[str, str]]
) -> Iterator[Function | ast.ClassDef | None]:
    """What a relative import of a name may refer to: in a module, or in a package."""
    parts = PurePosixPath(path).parent.parts
    if node.level > len(parts) + 1:
        return
    base = PurePosixPath(*parts[: len(parts) - node.level + 1], *(node.module.split(".") if node.module else ()))
    for file in (f"{base}.py", f"{base}/{_INIT}" if base.parts else _INIT):
        yield _definition(modules, file, name, seen)


def _offer(node: Function | ast.ClassDef, name: str) -> Offer:
    """The entry for a function or class.

    Raises:
        RecursionError: an expression in it is too deep.
    """
    text = ast.get_docstring(node) or ""
    own: Function | None = None if isinstance(node, ast.ClassDef) else node
    if isinstance(node, ast.ClassDef):
        methods = (method for method in node.body if isinstance(method, Function) and method.name == _METHODS[0])
        own = next(methods, None)
        text += f"\n{ast.get_docstring(own) or ''}" if own else ""
    return Offer(
        signature="\n".join(_signature(node, name)),
        summary=_summary(node),
        name=name,
        arguments=arguments(own, text, isinstance(node, ast.ClassDef)) if own else (),
        returns=returns(text) if isinstance(node, Function) else "",
    )


def _signature(node: Function | ast.ClassDef, name: str) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        yield f"class {name}({bases})" if bases else f"class {name}"
        for method in node.body:
            if isinstance(method, Function) and method.name in _METHODS:
                yield f"    {_call(method, method.name)}"
        return
    yield _call(node, name)


def _call(node: Function, name: str) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{name}({ast.unparse(node.args)}){returns}"


def _summary(node: Function | ast.ClassDef | ast.Module) -> str:
    text = ast.get_docstring(node) or ""
    return " ".join(text.split("\n\n", 1)[0].split())
