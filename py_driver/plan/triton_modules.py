"""The modules of a Python package with functions in Triton: the functions' parameters, and the modules' imports."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.errors import Code
from py_driver.plan.staging import staged
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from py_driver.manifest.ahead import Compiled
    from py_driver.manifest.model import Manifest
    from py_driver.manifest.section import Findings

_SIGNED_BOOLEANS = "3.6"
"""The release of Triton that spells a bool `i1`."""

_INTEGERS = (("i32", (1 << 31) - 1), ("i64", (1 << 63) - 1))
"""The integer types that Triton chooses, with the largest value of each."""

_ANNOTATED = {
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"{sign}{bits}": f"{sign}{bits}" for sign in ("i", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("int1", "uint1", "i1", "u1", "bool"), "u1"),
    "int": "i32",
    **dict.fromkeys(("float", "float32", "fp32"), "fp32"),
    **dict.fromkeys(("double", "float64", "fp64"), "fp64"),
}
"""The types of annotations of numbers (triton/_utils.py)."""

_OTHER_TYPE = re.compile(r"pointer_type|\*|float8|fp8|(?:float|fp|bf|bfloat)16|half")
"""Annotations of pointers and of numbers that aot.toml does not support."""


class Parameter(NamedTuple):
    """A parameter of a function.

    Attributes:
        name: as the source spells it.
        is_constant: whether it is a `tl.constexpr`.
        default: a list with its default; empty without a literal default.
        is_optional: whether it has a default of any kind.
        annotation: the text of its annotation; empty without one.
    """

    name: str
    is_constant: bool
    default: tuple[Any, ...]
    is_optional: bool
    annotation: str = ""

    @property
    def is_fixed(self) -> bool:
        """Whether it is a constant with a default."""
        return self.is_constant and self.is_optional

    def default_type(self, release: str) -> str:
        """The type of the default of an argument that is not constant; empty without a literal default.

        Args:
            release: the release of Triton.
        """
        if self.is_constant or not self.default:
            return ""
        value = self.default[0]
        boolean = "i1" if release == _SIGNED_BOOLEANS else "u1"
        annotated = _type_of(self.annotation)
        if annotated in ("u1", "fp32", "fp64"):
            return boolean if annotated == "u1" else annotated
        if _OTHER_TYPE.search(self.annotation) or (annotated and type(value) is not int):
            return ""
        if isinstance(value, bool):
            return boolean
        if isinstance(value, int) and (annotated or value != 1):
            bits = annotated or next((type_ for type_, most in _INTEGERS if -most - 1 <= value <= most), "u64")
            return f"{bits}:16" if value % 16 == 0 else bits
        return {float: "fp32", int: "1", type(None): "None"}.get(type(value), "")


class Modules:
    """The modules of a Python package, each parsed once.

    Args:
        manifest: the project's build.toml.
        python: the files of the package.
        directory: the project's directory.
    """

    def __init__(self, manifest: Manifest, python: Sequence[str], directory: Path) -> None:
        self._package = manifest.module
        self._root = manifest.python_root
        self._directory = directory
        self._files = {
            name.removeprefix(f"{self._root}/").removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
            for name in python
            if name.endswith(".py") and staged(name) == name
        }
        self._trees: dict[str, ast.Module] = {}

    def _tree(self, module: str) -> ast.Module:
        """A module's syntax tree; empty if Python cannot parse it, which the compile reports."""
        if module not in self._trees:
            try:
                self._trees[module] = ast.parse((self._directory / self._files[module]).read_bytes())
            except (SyntaxError, ValueError, RecursionError):
                self._trees[module] = ast.Module(body=[], type_ignores=[])
        return self._trees[module]

    def parameters(self, compiled: Compiled, findings: Findings) -> tuple[Parameter, ...]:
        """The parameters of a function; empty if it does not exist, which is collected."""
        module, _, name = compiled.function.value.rpartition(".")
        if module not in self._files:
            message = f"there is no module `{module}` in {self._root}"
            label = did_you_mean(module, sorted(self._files))
            findings.add(Code.FILE_MISSING, message, compiled.function.span, label=label)
            return ()
        functions = self._functions(module)
        if name not in functions:
            message = f"{self._files[module]} has no function `{name}`"
            label = did_you_mean(name, sorted(functions))
            findings.add(Code.BAD_VALUE, message, compiled.function.span, label=label)
            return ()
        if lines := self._other_definitions(module, functions[name]):
            message = f"{self._files[module]} defines `{name}` with other parameters in line {lines[0]}"
            advice = f"write one signature, or give the function another name than in line {functions[name].lineno}"
            findings.add(Code.BAD_VALUE, message, compiled.function.span, advice=advice)
        return tuple(_parameters(functions[name].args))

    def _other_definitions(self, module: str, function: ast.FunctionDef) -> list[int]:
        """The lines with definitions of a function of a module that have other parameters or defaults.

        Which definition counts is known only when the module runs.
        """
        return [
            node.lineno
            for node in _statements(self._tree(module).body)
            if isinstance(node, ast.FunctionDef)
            and node.name == function.name
            and node.decorator_list
            and ast.dump(node.args) != ast.dump(function.args)
        ]

    def _functions(self, module: str) -> dict[str, ast.FunctionDef]:
        """The functions of a module."""
        nodes = [node for node in ast.walk(self._tree(module)) if isinstance(node, ast.FunctionDef)]
        own = {*_statements(self._tree(module).body)}
        # A method or a nested function has the name only if no other function does.
        return {
            node.name: node
            for node in sorted(nodes, key=lambda node: (node in own, bool(node.decorator_list), node.lineno))
        }

    def parameters_of(self, function: str) -> tuple[Parameter, ...]:
        """The parameters of a function, e.g. `kernels.forward`; empty if it does not exist."""
        node = self._definition(function)
        return tuple(_parameters(node.args)) if node else ()

    def is_ambiguous(self, function: str) -> bool:
        """Whether a module defines a function, e.g. `kernels.forward`, several times with other parameters."""
        node = self._definition(function)
        return bool(node and self._other_definitions(function.rpartition(".")[0], node))

    def _definition(self, function: str) -> ast.FunctionDef | None:
        """A function, e.g. `kernels.forward`; None if it does not exist."""
        module, _, name = function.rpartition(".")
        return self._functions(module).get(name) if module in self._files else None

    @property
    def names(self) -> tuple[str, ...]:
        """The modules, as they are imported from the package."""
        return tuple(self._files)

    def text(self, module: str) -> bytes:
        """The content of a module."""
        return (self._directory / self._files[module]).read_bytes()

    def closure(self, functions: Iterable[str]) -> tuple[str, ...]:
        """The files of the functions' modules, and of the modules of the package that they import."""
        waiting = sorted({function.rpartition(".")[0] for function in functions})
        found: dict[str, None] = {}
        while waiting:
            module = waiting.pop()
            if module in found:
                continue
            found[module] = None
            waiting += [name for name in self._imports(module) if name in self._files and name]
        return tuple(sorted(self._files[module] for module in found))

    def _imports(self, module: str) -> Iterator[str]:
        """The modules of its package that a module imports, by their names in it."""
        is_package = self._files[module].endswith("/__init__.py")
        for node in ast.walk(self._tree(module)):
            if isinstance(node, ast.Import):
                yield from (
                    alias.name.removeprefix(f"{self._package}.")
                    for alias in node.names
                    if alias.name.startswith(f"{self._package}.")
                )
            elif isinstance(node, ast.Call) and (text := _named_module(node)):
                bare = text.lstrip(".")
                if text != bare:
                    own = module.split(".")
                    yield ".".join([*own[: len(own) - (len(text) - len(bare) - is_package)], bare])
                elif bare.startswith(f"{self._package}."):
                    yield bare.removeprefix(f"{self._package}.")
            elif isinstance(node, ast.ImportFrom):
                parts = module.split(".")
                if node.level:
                    above = node.level - 1 if is_package else node.level
                    base = parts[: len(parts) - above]
                elif (node.module or "").split(".")[0] == self._package:
                    base = []
                else:
                    continue
                named = (node.module or "").split(".") if node.module else []
                path = ".".join([*base, *(named if node.level else named[1:])])
                yield path
                yield from (f"{path}.{alias.name}" if path else alias.name for alias in node.names)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those in `if`, `try` and `with`."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from _statements(handler.body)


def _named_module(call: ast.Call) -> str:
    """The argument of `importlib.import_module`, with its dots; empty for another call, or a computed name."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    first = call.args[0] if call.args else None
    named = first.value if isinstance(first, ast.Constant) else None
    return named if function == "import_module" and isinstance(named, str) else ""


def _parameters(arguments: ast.arguments) -> Iterator[Parameter]:
    """The parameters of a function."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    pairs = [
        *zip(plain, [*defaults, *arguments.defaults], strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for argument, default in pairs:
        annotation = ast.unparse(argument.annotation) if argument.annotation else ""
        yield Parameter(
            name=argument.arg,
            is_constant="constexpr" in annotation,
            default=_annotated(_literal(default), annotation),
            is_optional=default is not None,
            annotation=annotation,
        )


def _annotated(default: tuple[Any, ...], annotation: str) -> tuple[Any, ...]:
    """A default as Triton passes it: a float if the annotation is a float."""
    is_float = _type_of(annotation).startswith("fp")
    return tuple(float(value) if is_float and type(value) is int else value for value in default)


def _type_of(annotation: str) -> str:
    """The type of a number with an annotation; empty for other annotations."""
    return _ANNOTATED.get(annotation.strip("'\"").rpartition(".")[2], "")


def _literal(default: ast.expr | None) -> tuple[Any, ...]:
    """A default that is a plain value; empty for others."""
    try:
        value = ast.literal_eval(default) if default is not None else None
        json.dumps(value)
    except (TypeError, ValueError):
        return ()
    return () if default is None else (value,)
