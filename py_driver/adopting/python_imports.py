"""Rewrites imports of a project's Python files for a package that is loaded under another name.

The `kernels` client imports a package under its build's id, so its modules find each other only by relative imports.
"""

from __future__ import annotations

import ast
import itertools
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.adopting.losses import Loss

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

OPS: Final = "_kernel_ops"
"""The name of the kernel's ops in a rewritten file."""

_PREFIX: Final = "_add_op_namespace_prefix"
_DEFINE: Final = frozenset(("custom_op", "triton_op", "define"))
_REGISTER: Final = frozenset(("register_fake", "register_autograd", "register_kernel", "register_vmap", "impl"))
_FINDERS: Final = frozenset(("import_module", "__import__", "find_spec", "version", "get_distribution", "files"))
_OPS: Final = ("torch", "ops")


class Names(NamedTuple):
    """The places of a project's modules in the kernel's package.

    Attributes:
        package: the kernel's package.
        primary: the project's package whose modules move into the kernel's package itself; empty if there is none.
        others: other top-level packages and modules of the project, which move below the kernel's package.
        namespaces: former namespaces of ops that are now in the kernel's own.
    """

    package: str
    primary: str
    others: frozenset[str]
    namespaces: frozenset[str] = frozenset()

    def moved(self, module: str) -> str | None:
        """The path of a module below the kernel's package; None if it is not the project's."""
        top, _, rest = module.partition(".")
        if top == self.primary:
            return rest
        return module if top in self.others else None


class Rewritten(NamedTuple):
    """A rewritten file.

    Attributes:
        content: its content.
        losses: the parts that are not carried over.
    """

    content: bytes
    losses: tuple[Loss, ...] = ()


def rewrite(path: str, content: bytes, names: Names, depth: int | None) -> Rewritten:
    """Rewrite the imports in a Python file; other files stay unchanged.

    Args:
        path: its path.
        content: its content.
        names: the places of modules.
        depth: the depth of its directory below the kernel's package; None if it is outside.
    """
    if not path.endswith((".py", ".pyi")):
        return Rewritten(content)
    try:
        text = content.decode("utf-8")
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as problem:
        line = getattr(problem, "lineno", 0) or 0
        advice = "correct it, and import the modules of the project relatively"
        return Rewritten(content, (Loss(path, line, "this cannot be parsed as Python", advice),))
    return _Rewriter(path, text, tree, names, depth).result()


class _Rewriter:
    """Collects the edits of a file."""

    def __init__(self, path: str, text: str, tree: ast.Module, names: Names, depth: int | None) -> None:
        self._path = path
        self._text = text
        self._tree = tree
        self._names = names
        self._depth = depth
        self._dots = "" if depth is None else "." * (depth + 1)
        self._starts = list(itertools.accumulate((len(line) for line in _lines(text.encode())), initial=0))
        self._edits: list[tuple[int, int, str]] = []
        self._losses: list[Loss] = []
        self._needs: set[str] = set()

    def result(self) -> Rewritten:
        """The file, rewritten."""
        dropped = self._depth is not None and self._drop_loading()
        for node in ast.walk(self._tree):
            if dropped and any(node in ast.walk(statement) for statement in dropped):
                continue
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
            elif isinstance(node, ast.Attribute) and self._depth is not None:
                self._namespace(node)
            elif isinstance(node, ast.Call):
                self._call(node)
        content = self._text.encode()
        for start, end, new in sorted(self._edits, reverse=True):
            content = content[:start] + new.encode() + content[end:]
        return Rewritten(self._with_needs(content.decode()).encode(), tuple(self._losses))

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        """The position of a node, in bytes."""
        starts = [0]
        for line in self._text.encode().splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts[node.lineno - 1] + node.col_offset, starts[(node.end_lineno or 1) - 1] + (
            node.end_col_offset or 0
        )

    def _replace(self, node: ast.stmt | ast.expr, text: str) -> None:
        self._edits.append((*self._span(node), text))

    def _lose(self, node: ast.AST, reason: str, advice: str, *, missing: bool = True) -> None:
        self._losses.append(Loss(self._path, getattr(node, "lineno", 0), reason, advice, missing=missing))

    def _import(self, node: ast.Import) -> None:
        if all(self._names.moved(alias.name) is None for alias in node.names):
            return
        statements = []
        for alias in node.names:
            moved = self._names.moved(alias.name)
            if moved is None:
                statements.append(ast.unparse(ast.Import([alias])))
            elif self._depth is None:
                statements.append(self._outside(alias, moved))
            else:
                statements += self._inside(alias, moved)
        self._replace(node, "; ".join(statements))

    def _inside(self, alias: ast.alias, moved: str) -> Iterator[str]:
        """The imports that replace an import in the package: `from . import ops`."""
        folder, _, last = moved.rpartition(".")
        top = alias.name.partition(".")[0]
        if not moved:
            yield self._root(alias.asname or top)
        elif alias.asname or "." not in alias.name:
            name = alias.asname or alias.name
            yield f"from {self._dots}{folder} import {last}" + (f" as {name}" if name != last else "")
        elif top == self._names.primary:
            yield f"from {self._dots}{folder} import {last}" + ("" if self._is_free(last) else f" as _{last}")
            if self._uses(top):
                yield self._root(top)
        else:
            yield f"from {self._dots} import {top}"
            yield f"from {self._dots}{folder} import {last} as _{last}"

    def _root(self, name: str) -> str:
        """A statement that binds a name to the kernel's package itself."""
        depth = self._depth or 0
        package = f"__package__.rsplit('.', {depth})[0]" if depth else "__package__"
        return f"{name} = __import__('sys').modules[{package}]"

    def _outside(self, alias: ast.alias, moved: str) -> str:
        """The import that replaces an import in a test: `import package.ops`."""
        package = self._names.package
        name = f"{package}.{moved}" if moved else package
        top = alias.name.partition(".")[0]
        if alias.asname:
            return f"import {name} as {alias.asname}"
        if top == package and top == self._names.primary:
            return f"import {name}"
        if "." in alias.name:
            return f"import {name}; import {package if top == self._names.primary else f'{package}.{top}'} as {top}"
        return f"import {name} as {top}"

    def _uses(self, name: str) -> bool:
        return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(self._tree))

    def _is_free(self, name: str) -> bool:
        """Whether a file does not use a name otherwise."""
        bound = {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)}
        bound |= {
            node.name
            for node in ast.walk(self._tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        }
        return name not in bound

    def _import_from(self, node: ast.ImportFrom) -> None:
        moved = self._names.moved(node.module or "") if node.level == 0 else None
        if moved is None:
            return
        if self._depth is None:
            module = f"{self._names.package}.{moved}" if moved else self._names.package
        else:
            module = f"{self._dots}{moved}"
        # The names behind `import` stay unchanged.
        start, end = self._span(node)
        text = self._text.encode()[start:end].decode()
        written = re.match(r"from\s+[\w.\s]+?\s+import\b", text)
        if written:
            self._edits.append((start, start + len(written[0].encode()), f"from {module} import"))

    def _drop_loading(self) -> list[ast.stmt]:
        """Comment out statements that load libraries by path, which the kernel's `_ops` does; returns them."""
        found = []
        for statement in self._tree.body:
            calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
            loads = [call for call in calls if getattr(call.func, "attr", "") == "load_library"]
            if not loads or isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                continue
            found.append(statement)
            start, end = self._span(statement)
            text = "\n".join(f"# {line}".rstrip() for line in self._text.encode()[start:end].decode().split("\n"))
            self._edits.append((start, end, text))
            self._needs.add(OPS)
            advice = "check whether another part of the statement is needed"
            reason = "a statement that loads libraries is commented out: _ops loads the kernel's"
            self._lose(statement, reason, advice, missing=False)
        return found

    def _namespace(self, node: ast.Attribute) -> None:
        """Replace `torch.ops.NAMESPACE` by the kernel's ops."""
        value = node.value
        if (
            node.attr in self._names.namespaces
            and isinstance(value, ast.Attribute)
            and value.attr == _OPS[1]
            and isinstance(value.value, ast.Name)
            and value.value.id == _OPS[0]
        ):
            self._replace(node, OPS)
            self._needs.add(OPS)

    def _call(self, node: ast.Call) -> None:
        function = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
        first = node.args[0] if node.args else None
        if function in _FINDERS and isinstance(first, ast.Constant) and isinstance(first.value, str):
            if self._names.moved(first.value) is not None:
                advice = "import it relatively: the package has another name when it is loaded"
                self._lose(node, f"`{function}` is called with the name `{first.value}`", advice)
        elif function in _DEFINE | _REGISTER and first is not None and self._depth is not None:
            self._op_name(first, defines=function in _DEFINE)

    def _op_name(self, first: ast.expr, *, defines: bool) -> None:
        """Move the name of an op that the file registers into the kernel's namespace."""
        last = first.values[-1] if isinstance(first, ast.JoinedStr) and first.values else first
        text = last.value if isinstance(last, ast.Constant) and isinstance(last.value, str) else ""
        namespace, separator, name = text.partition("::")
        if not separator or not re.fullmatch(r"\w+(\.\w+)?", name):
            return
        if not defines and namespace in {"aten", "prim"}:
            return
        self._replace(first, f'{_PREFIX}("{name}")')
        self._needs.add(_PREFIX)

    def _with_needs(self, text: str) -> str:
        """Insert the imports that the changes need, after the docstring and imports from `__future__`."""
        if not self._needs:
            return text
        imports = {OPS: f"ops as {OPS}", _PREFIX: f"add_op_namespace_prefix as {_PREFIX}"}
        words = ", ".join(imports[need] for need in sorted(self._needs))
        line = f"from {self._dots}_ops import {words}\n"
        behind = 0
        for at, statement in enumerate(ast.parse(text).body):
            is_doc = at == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if is_doc or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
                behind = statement.end_lineno or 0
            else:
                break
        lines = _lines(text.encode())
        return b"".join([*lines[:behind], line.encode(), *lines[behind:]]).decode()


def _lines(content: bytes) -> list[bytes]:
    """The lines of a file, split as Python does."""
    return re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", content)


def tops(paths: Collection[str]) -> frozenset[str]:
    """The top-level packages and modules among files.

    Args:
        paths: the paths of Python files.
    """
    return frozenset(path.partition("/")[0].removesuffix(".py") for path in paths)
