"""Checks that the Python package registers its ops in the namespace of the variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.errors import Code, Span
from py_driver.manifest.text import is_small_file

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable
    from pathlib import Path

    from py_driver.manifest.section import Findings

_MODULE = "torch.library"
_DEFINE = frozenset(("custom_op", "triton_op", "define"))
_REGISTER = frozenset(
    (
        *("impl", "register_autocast", "register_autograd", "register_fake", "register_kernel"),
        *("register_torch_dispatch", "register_vmap"),
    )
)
"""The other functions of torch.library whose first argument is the name of an op, `namespace::op` (torch 2.15)."""

_OTHERS = ("aten::", "prim::", "prims::", "quantized::", "torch::", "torchvision::", "torchaudio::", "c10d::", "_c10d")
"""Prefixes of the ops of torch and its libraries, to which a kernel may add."""


def check_op_names(directory: Path, python: Iterable[str], findings: Findings) -> None:
    """Collect a note with OP_NAMESPACE for each op that is registered in a literal namespace.

    Two versions of a kernel in one process would both register it. Upstream's builder refuses such decorators
    (`torch-ops-check-hook.py`); the name must come from `add_op_namespace_prefix`.

    Args:
        directory: the project's directory.
        python: the files of the Python package.
        findings: gets the notes.
    """
    for name in python:
        path = directory / name
        if name.endswith(".py") and is_small_file(path):
            text = path.read_text(encoding="utf-8", errors="replace")
            if _MODULE in text:
                _check(text, str(path), findings)


def _check(text: str, path: str, findings: Findings) -> None:
    import ast  # noqa: PLC0415  (most projects register no op in Python)

    try:
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and node.args]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = text.splitlines()
    for call in calls:
        first = call.args[0]
        name = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        function = _name(call.func)
        if "::" in name and (function in _DEFINE or (function in _REGISTER and not name.startswith(_OTHERS))):
            line = lines[first.lineno - 1] if first.lineno <= len(lines) else ""
            span = Span(file=path, line=first.lineno, column=first.col_offset + 1, length=len(name) + 2, text=line)
            prefixed = f'add_op_namespace_prefix("{name.partition("::")[2]}")'
            message = f"the op `{name}` is not in the namespace of the variant: write {prefixed}"
            findings.note(message, span, Code.OP_NAMESPACE)


def _name(function: ast.expr) -> str:
    """The last part of a called name: `custom_op` of `torch.library.custom_op`."""
    return getattr(function, "attr", "") or getattr(function, "id", "")
