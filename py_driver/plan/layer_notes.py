"""Layers of a kernel that `kernels.kernelize` would refuse, or not use, in a user's model.

The client validates a class of the submodule `layers`, and replaces the `forward` of a layer of the model by the
class's. The rules are those of `_get_kernel_layer`, `_validate_layer` and `_conditionally_replace_forward` in kernels
0.17.2 (`kernels/layer/layer.py`). Whether `forward` accepts the arguments of the replaced layer is known only in the
model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.errors import Note
from py_driver.manifest.locate import Source
from py_driver.manifest.text import is_small_file
from py_driver.resources import resource

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from py_driver.plan.project import Project

_FILES: Final = ("layers.py", "layers/__init__.py")
_INIT: Final = "__init__.py"
_FORWARD: Final = "forward"
_FLAGS: Final = ("can_torch_compile", "has_backward")
_MODULES: Final = ("Module", "nn.Module", "torch.nn.Module")
_TORCH: Final = ("nn.", "torch.nn.")


class _Problem(NamedTuple):
    """A broken rule: its position and its message."""

    node: ast.stmt
    message: str


def layer_notes(project: Project) -> list[Note]:
    """A note for each rule of `kernelize` that a public class in `layers` breaks; empty without such a module.

    A class whose base is imported from another package is not checked: its inherited members are unknown.

    Args:
        project: a checked project.
    """
    path = next((f"{project.python_root}/{name}" for name in _FILES if _is_shipped(project, name)), None)
    if path is None:
        return []
    import ast  # noqa: PLC0415  (slow to load: most projects have no layers)

    text = _text(project.directory / path)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    source = Source(str(project.directory / path), text)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    layers = [node for node in classes.values() if not node.name.startswith("_") and _is_layer(node, classes)]
    problems = [problem for node in layers for problem in _problems(node, classes)]
    notes = [_note(source, problem) for problem in dict.fromkeys(problems)]
    if layers and not _is_imported(project):
        message = (
            f"`{project.python_root}/{_INIT}` does not import `layers`, so `kernelize` finds none: add "
            "`from . import layers`"
        )
        notes.insert(0, _note(source, _Problem(layers[0], message)))
    return notes


def _is_shipped(project: Project, name: str) -> bool:
    path = f"{project.python_root}/{name}"
    file = project.directory / path
    return path in project.python and is_small_file(file)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _is_imported(project: Project) -> bool:
    """Whether the package's `__init__.py` imports the submodule, or may do so dynamically."""
    import ast  # noqa: PLC0415  (as above)

    if not _is_shipped(project, _INIT):
        return True
    try:
        tree = ast.parse(_text(project.directory / project.python_root / _INIT))
    except (SyntaxError, ValueError, RecursionError):
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            names = {alias.name for alias in node.names}
            if (node.module or "").partition(".")[0] == "layers" or "layers" in names or "*" in names:
                return True
        if isinstance(node, ast.Name | ast.FunctionDef) and getattr(node, "id", getattr(node, "name", "")) in (
            "layers",
            "__getattr__",
            "importlib",
            "__import__",
        ):
            return True
    return False


def _is_layer(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> bool:
    """Whether a class is a layer: it derives from torch's, or has a `forward`; and its bases are known."""
    return all(base in classes or base.startswith(_TORCH) or base == "Module" for base in _bases(node)) and (
        bool(_bases(node)) or any(name == _FORWARD for name, _ in _members(node))
    )


def _bases(node: ast.ClassDef) -> list[str]:
    import ast  # noqa: PLC0415  (as above)

    return [ast.unparse(base) for base in node.bases if ast.unparse(base) != "object"]


def _family(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """A class and its bases in the file, in method resolution order."""
    seen: set[str] = set()
    queue = [node.name]
    while queue:
        name = queue.pop(0)
        if name in classes and name not in seen:
            seen.add(name)
            yield classes[name]
            queue += _bases(classes[name])


def _members(node: ast.ClassDef) -> Iterator[tuple[str, ast.stmt]]:
    """The names that the body of a class binds, with their statements."""
    import ast  # noqa: PLC0415  (as above)

    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name, statement
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from ((name.id, statement) for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and statement.value and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement


def _problems(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[_Problem]:
    """The rules that a layer breaks."""
    family = list(_family(node, classes))
    members = [member for relative in family for member in _members(relative)]
    bases = {base for relative in family for base in _bases(relative) if base not in classes}
    if not any(base in _MODULES for base in bases) and not bases:
        yield _Problem(node, f"`kernelize` refuses `{node.name}`: derive it from `torch.nn.Module`")
    for base in sorted(bases.difference(_MODULES)):
        message = f"`kernelize` refuses `{node.name}`: `{base}` has a constructor; derive it from `torch.nn.Module`"
        yield _Problem(node, message)
    own = frozenset(line for line in resource("module_members.txt").splitlines() if not line.startswith("#"))
    for name, statement in members:
        if name == "__init__":
            message = (
                f"`kernelize` refuses `{node.name}`: a layer has no state, so it has no `__init__`; `self` in "
                "`forward` is the layer that is replaced"
            )
            yield _Problem(statement, message)
        elif name in _FLAGS:
            yield from _flag_problems(node, name, statement)
        elif name not in own:
            message = (
                f"`kernelize` refuses `{node.name}`: besides `forward` it may have `can_torch_compile` and "
                f"`has_backward`, not `{name}`; make it a function or a constant of the module"
            )
            yield _Problem(statement, message)
    names = {name for name, _ in members}
    if _FORWARD not in names:
        yield _Problem(node, f"`kernelize` refuses `{node.name}`: it has no `forward`")
    if "can_torch_compile" not in names:
        message = (
            f"`{node.name}` has no `can_torch_compile`: `kernelize` treats that as False and does not use the layer in "
            "compiled models"
        )
        yield _Problem(node, message)
    if "has_backward" not in names:
        message = f"`{node.name}` has no `has_backward`: `kernelize` treats that as True and uses the layer in training"
        yield _Problem(node, message)


def _flag_problems(node: ast.ClassDef, name: str, statement: ast.stmt) -> Iterator[_Problem]:
    """A flag that is not literally True or False: a function, which counts as True, or a computed value."""
    import ast  # noqa: PLC0415  (as above)

    value = getattr(statement, "value", None)
    if not (isinstance(value, ast.Constant) and isinstance(value.value, bool)):
        message = f"`{name}` of `{node.name}` is not plainly True or False, and `kernelize` takes it as it is"
        yield _Problem(statement, message)


def _note(source: Source, problem: _Problem) -> Note:
    """A note at the name that a statement binds, or at its beginning."""
    import ast  # noqa: PLC0415  (as above)

    node = problem.node
    start, end = source.start(node.lineno) + node.col_offset, len(source.text)
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        start = source.text.index(node.name, start)
        end = start + len(node.name)
    return Note(message=problem.message, span=source.span(start, end))
