"""The Python package of a kernel: the project's own files, and modules whose functions call the ops."""

from __future__ import annotations

import ast
import posixpath
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.adopting.cpp_code import string_of
from py_driver.adopting.losses import Loss
from py_driver.adopting.op_binding import quoted
from py_driver.adopting.python_imports import Names, rewrite, tops
from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.adopting.op_binding import Op

ROOT: Final = "torch-ext"
"""The directory of the package and of the binding."""

_INIT: Final = "__init__.py"
_PYTHON: Final = (".py", ".pyi")
_GENERATED: Final = ("_ops.py", "metadata.json")
"""Files that the build writes into each variant."""

_NUMBER: Final = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


class BoundModule(NamedTuple):
    """An extension module of the project.

    Attributes:
        name: its dotted name.
        script: the file that creates it.
        line: the line there.
        ops: the ops of its functions.
        values: its other names, with their C++ values.
        doc: its documentation.
    """

    name: str
    script: str
    line: int
    ops: tuple[Op, ...]
    values: tuple[tuple[str, str], ...]
    doc: str


class Package(NamedTuple):
    """The Python package of a kernel.

    Attributes:
        files: the contents, by path in the project.
        extensions: extensions of its files if they include others than Python's; else empty.
        names: the places of the project's modules.
        losses: the parts that are not carried over.
    """

    files: Mapping[str, bytes]
    extensions: tuple[str, ...]
    names: Names
    losses: tuple[Loss, ...]


def make_package(
    package: str, installed: Mapping[str, bytes], modules: Sequence[BoundModule], namespaces: Iterable[str]
) -> Package:
    """Make the package of a kernel.

    Args:
        package: its name.
        installed: the project's installed files, without libraries.
        modules: its extension modules.
        namespaces: former namespaces of ops that are now in the kernel's own.
    """
    names = _names(package, installed, modules, frozenset(namespaces))
    files: dict[str, bytes] = {}
    losses: list[Loss] = []
    extensions: dict[str, None] = {}
    for path, content in sorted(installed.items()):
        if _is_source(path):
            continue
        target = _place(path, names)
        name = posixpath.basename(target)
        if "." not in name:
            losses.append(
                Loss(path, 0, "a file without an extension is not shipped", "give it one, and list it in `pyext`")
            )
            continue
        if target in _GENERATED:
            losses.append(Loss(path, 0, f"`{target}` is written by the build", "rename the file"))
            continue
        extensions[name.partition(".")[2]] = None
        moved = rewrite(path, content, names, target.count("/"))
        losses += moved.losses
        files[f"{ROOT}/{package}/{target}"] = moved.content
    for module in modules:
        below = names.moved(module.name)
        target = f"{below.replace('.', '/')}.py" if below else _INIT
        text, more = _module_text(module, target.count("/"))
        losses += more
        path = f"{ROOT}/{package}/{target}"
        if path in files:
            reason = f"the functions of {module.name} have no place: the package has `{target}`"
            losses.append(Loss(module.script, module.line, reason, "rename that file"))
        files.setdefault(path, text.encode())
    init = f"{ROOT}/{package}/{_INIT}"
    if init not in files:
        files[init] = _init_text(package, modules, names).encode()
    others = tuple(extension for extension in extensions if extension not in {"py", "pyi"})
    return Package(files, ("py", "pyi", *others) if others else (), names, tuple(losses))


def _is_source(path: str) -> bool:
    """Whether a compiler reads a file, so that an installed package does not need it."""
    backends = facts("backends")
    known = (*backends["CXX_EXTENSIONS"], *backends["OTHER_LANGUAGES"], *backends["BACKENDS"]["cuda"]["languages"])
    headers = ("h", "hh", "hpp", "hxx", "cuh", "inl", "inc")
    return path.endswith(tuple(f".{extension}" for extension in (*known, *headers)))


def _names(package: str, installed: Iterable[str], modules: Sequence[BoundModule], namespaces: frozenset[str]) -> Names:
    python = [path for path in installed if path.endswith(_PYTHON)]
    packages = {path.partition("/")[0] for path in python if "/" in path}
    single = next(iter(packages)) if len(packages) == 1 else ""
    primary = package if package in packages or any(module.name == package for module in modules) else single
    every = tops(python) | {module.name.partition(".")[0] for module in modules}
    return Names(package, primary, every - {primary}, namespaces)


def _place(path: str, names: Names) -> str:
    """The path of a project's file in the kernel's package."""
    top, separator, rest = path.partition("/")
    return rest if separator and top == names.primary else path


def _module_text(module: BoundModule, depth: int) -> tuple[str, list[Loss]]:
    """A Python module with the functions of an extension module."""
    losses = []
    doc = module.doc or f"The functions of `{module.name}`: ops of this kernel."
    parts = [quoted(doc), "", f"from {'.' * (depth + 1)}_ops import ops as _ops"]
    names = []
    for name, value in module.values:
        text = _literal(value)
        if text is None or not name.isidentifier():
            advice = "write it into the Python module"
            losses.append(Loss(module.script, module.line, f"`{name}` of {module.name} is `{value}`", advice))
        else:
            names.append(name)
            parts += ["", f"{name} = {text}"]
    for op in module.ops:
        names.append(op.function)
        parts += ["", "", op.python.rstrip("\n")]
    listed = "".join(f"    {name!r},\n" for name in names).replace("'", '"')
    parts += ["", "", f"__all__ = [\n{listed}]" if names else "__all__ = []"]
    return "\n".join(parts) + "\n", losses


def _literal(value: str) -> str | None:
    """A C++ literal in Python; None for any other expression."""
    if (string := string_of(value)) is not None:
        return repr(string)
    if value in {"true", "false"}:
        return value.capitalize()
    return value if _NUMBER.fullmatch(value) and isinstance(ast.literal_eval(value.lstrip("+")), int | float) else None


def _init_text(package: str, modules: Sequence[BoundModule], names: Names) -> str:
    """The `__init__.py` for a project without one."""
    lines = [f'"""{package}: see the modules of this package."""', ""]
    exported: list[str] = []
    if len(modules) == 1 and names.others == {modules[0].name} and modules[0].ops:
        exported = [op.function for op in modules[0].ops]
        lines += [f"from .{modules[0].name} import {', '.join(exported)}"]
    else:
        exported = sorted(names.others)
        lines += [f"from . import {name}" for name in exported]
    listed = ", ".join(f'"{name}"' for name in exported)
    return "\n".join([*lines, "", f"__all__ = [{listed}]"]) + "\n"
