"""Stand-ins for packages that are absent when a kernel's modules are compiled, above all torch.

Known facts about the target have their values. Everything else is a stand-in that is always true, or always false: a
module is read once with each, and Triton's input must be the same. For that, some expressions in the code around the
kernels are rewritten: `is`, `hasattr`, `getattr`, and imports that may fail.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

_HELPERS = "__compiled_ahead_%s__"
"""The functions that the code around the kernels calls instead of builtins."""

_MANY = 1_000_003
"""The number that stands for an unknown one that is not 0: larger than any limit that a module compares it with."""

_HASH = 0x5CA1AB1E
"""The hash of all stand-ins: whether two of them are the same key of a dict is as unknown as whether they are equal."""

_KNOWN_PACKAGES = ("triton", "torch", *sys.stdlib_module_names)
"""Packages whose import does not fail where the kernel runs."""


_FROM_NAME = importlib.metadata.Distribution.from_name


class Absent:
    """Stands for a part of an absent package.

    It is callable, usable as a base class without effect, a decorator that drops the function, and a number.

    Args:
        answer: its truth value, and the result of every comparison.
        known: its known attributes.
    """

    _answer: bool

    def __init__(self, answer: bool, known: dict[str, Any] | None = None) -> None:  # noqa: FBT001
        self.__dict__.update(known or {}, _answer=answer)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Any attribute except Python's special ones."""
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        return Absent(self._answer)

    def __call__(self, *_args: object, **_kwargs: object) -> Absent:
        """The result is absent as well."""
        return self

    def __getitem__(self, _key: object) -> Absent:
        return self

    def __mro_entries__(self, _bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, _instance: object) -> bool:
        return self._answer

    def __iter__(self) -> Iterator[object]:
        return iter((self,) if self._answer else ())

    def __repr__(self) -> str:
        return f"<absent {self._answer}>"

    def __bool__(self) -> bool:
        return self._answer

    def __int__(self) -> int:
        return _MANY if self._answer else 0

    __index__ = __len__ = __int__

    def __hash__(self) -> int:
        return _HASH

    def __float__(self) -> float:
        return float(int(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        return None

    def __neg__(self) -> Absent:
        return self

    __pos__ = __abs__ = __invert__ = __neg__

    def __round__(self, _digits: object = None) -> Absent:
        return self

    def __format__(self, _form: str) -> str:
        return repr(self)

    def _compare(self, _other: object) -> bool:
        return self._answer

    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _compare
    __eq__ = __ne__ = _compare

    def _combine(self, _other: object) -> Absent:
        return self

    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __and__ = __or__ = __pow__ = _combine
    __lshift__ = __rshift__ = __xor__ = __matmul__ = __divmod__ = _combine
    __rlshift__ = __rrshift__ = __rxor__ = __rmatmul__ = __rdivmod__ = _combine
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rand__ = __ror__ = __rpow__ = _combine


class _Present(Absent):
    """Stands for something that exists but is otherwise unknown: a version that is not None."""

    def __bool__(self) -> bool:
        return True


class _Module(ModuleType):
    """A module of an absent package."""

    def __init__(self, name: str, stand_in: Absent, parts: Container[str] = ()) -> None:
        super().__init__(name)
        self.stand_in = stand_in
        self.parts = parts

    def __getattr__(self, name: str) -> object:
        if name == "__path__" or f"{self.__name__}.{name}" in self.parts:
            raise AttributeError(name)
        return getattr(self.stand_in, name)


def _importer() -> str:
    """The function that imports: `import_module` or `find_spec` of importlib, or that with an import statement."""
    frame = sys._getframe(2)  # noqa: SLF001  (who imports)
    while frame.f_back and frame.f_globals.get("__name__") == "importlib._bootstrap":
        frame = frame.f_back
    return frame.f_code.co_name if str(frame.f_globals.get("__name__")).startswith("importlib") else ""


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every package that no other finder does, except Triton's own modules.

    Args:
        backend: the target's, as Triton names it: `cuda` or `hip`.
        arch: `9.0`, `gfx942`.
        own: the name of the kernel's package.
        answer: the truth value of everything unknown.
    """

    def __init__(self, backend: str, arch: str, own: str, *, answer: bool) -> None:
        self.answer = answer
        self.dynamic: list[str] = []
        self._own = own
        major, _, minor = arch.partition(".")
        some = _Present(answer)
        cuda = {"is_available": lambda: True}
        if backend == "cuda":
            cuda["get_device_capability"] = lambda *_args, **_kwargs: (int(major), int(minor))  # type: ignore[assignment]
        self._known: dict[str, dict[str, Any]] = {
            "torch.cuda": cuda,
            "torch.version": {"cuda": some if backend == "cuda" else None, "hip": None if backend == "cuda" else some},
        }
        parts = {name.rpartition(".")[2]: Absent(answer, values) for name, values in self._known.items()}
        self._known["torch"] = parts

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A stand-in."""
        importer = _importer()
        if fullname.startswith(f"{self._own}.") and importer == "import_module":
            self.dynamic.append(f"imports `{fullname}` by a name that is not a literal")
        if fullname.partition(".")[0] in ("triton", *sys.stdlib_module_names):
            return None
        if importer == "find_spec" and not self.answer and fullname.partition(".")[0] not in _KNOWN_PACKAGES:
            return None  # a module asks whether a package is installed
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty module that has every name."""
        return _Module(spec.name, Absent(self.answer, self._known.get(spec.name)))

    def package(self, name: str, parts: Container[str]) -> ModuleType:
        """A package of the kernel without `__init__`: it has every name except its parts'.

        Args:
            name: of the package.
            parts: the names of all existing modules and packages.
        """
        return _Module(name, Absent(self.answer), parts)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""

    def distribution(self, name: str) -> Any:  # noqa: ANN401  (a distribution)
        """The metadata of an installed package, in the place of `importlib.metadata.Distribution.from_name`.

        Raises:
            PackageNotFoundError: another package than torch is absent.
        """
        if name == "triton":
            return _FROM_NAME(name)
        if not self.answer and name not in _KNOWN_PACKAGES:
            raise importlib.metadata.PackageNotFoundError(name)
        return Absent(self.answer)

    def run(self, text: str, shown: str, module: ModuleType, present: Mapping[str, bool]) -> None:
        """Run a module of the kernel, rewritten for stand-ins.

        Args:
            text: its source.
            shown: the path of its file for debuggers and profilers.
            module: the module object to run it in.
            present: the kernel's own modules and packages, each with whether its text exists.
        """
        helpers: dict[str, Callable[..., Any]] = {"is": self._is, "hasattr": self._has, "getattr": self._get}
        module.__dict__.update({_HELPERS % name: helper for name, helper in helpers.items()})
        package = module.__spec__.parent if module.__spec__ else module.__name__.rpartition(".")[0]
        tree = _Words(package or "", present, fails=not self.answer).visit(ast.parse(text, shown))
        exec(compile(ast.fix_missing_locations(tree), shown, "exec"), module.__dict__)  # noqa: S102  (an import)

    def _is(self, left: object, right: object) -> bool:
        if (left is None or right is None) and (
            isinstance(left, _Present | _Module) or isinstance(right, _Present | _Module)
        ):
            return False
        if isinstance(left, Absent | _Module) or isinstance(right, Absent | _Module):
            return self.answer
        return left is right

    def _has(self, value: object, name: str) -> bool:
        found = value.stand_in if isinstance(value, _Module) else value
        is_open = isinstance(found, Absent) and name not in found.__dict__
        return self.answer if is_open else hasattr(value, name)

    def _get(self, value: object, name: str, *default: object) -> object:
        return default[0] if default and not self._has(value, name) else getattr(value, name, *default)


class _Words(ast.NodeTransformer):
    """Rewrites the code around kernels; Triton reads the kernels from the text.

    Args:
        package: the package of the module.
        present: the kernel's own modules and packages, each with whether its text exists.
        fails: whether imports that may fail do fail.
    """

    def __init__(self, package: str, present: Mapping[str, bool], *, fails: bool) -> None:
        self._package = package
        self._present = present
        self._fails = fails

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`a is b` and `a is not b`."""
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
            return node
        call: ast.expr = self._call("is", [node.left, node.comparators[0]], node)
        if isinstance(node.ops[0], ast.IsNot):
            call = ast.UnaryOp(op=ast.Not(), operand=call)
        return ast.copy_location(call, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`hasattr(a, "b")` and `getattr(a, "b", c)`."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr") and not node.keywords:
            return self._call(node.func.id, node.args, node)
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """An import of another package than torch, with its handler for a failure."""
        self.generic_visit(node)
        if self._fails and any(map(self._may_fail, node.body)):
            raised = ast.Raise(exc=ast.Name(id="ModuleNotFoundError", ctx=ast.Load()), cause=None)
            node.body = [ast.copy_location(raised, node.body[0])]
        return node

    def _may_fail(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = self._package.split(".")
            names = self._imported(
                ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])]), node
            )
        elif isinstance(node, ast.ImportFrom):
            names = self._imported(node.module or "", node)
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        return any(name.partition(".")[0] not in _KNOWN_PACKAGES and name not in self._present for name in names)

    def _imported(self, module: str, node: ast.ImportFrom) -> list[str]:
        """The modules that `from module import ...` needs: for a package without a text, its modules."""
        has_text = self._present.get(module, True)
        return [module] if has_text else [f"{module}.{alias.name}" for alias in node.names]

    @staticmethod
    def _call(name: str, args: list[ast.expr], node: ast.expr) -> ast.Call:
        function = ast.copy_location(ast.Name(id=_HELPERS % name, ctx=ast.Load()), node)
        return ast.copy_location(ast.Call(func=function, args=args, keywords=[]), node)
