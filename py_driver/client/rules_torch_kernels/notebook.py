"""`%%cuda` and `%%cpp` in notebooks: the functions of a cell, built by `cpp_extension.load_inline`."""

from __future__ import annotations

import hashlib
import re
import sys
from typing import TYPE_CHECKING, Any

from rules_torch_kernels.cpp_extension import load_inline
from rules_torch_kernels.loading import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable

_MAGICS = ("cuda", "cpp")


def register(shell: Any) -> None:  # noqa: ANN401  (IPython's InteractiveShell)
    """Add both to a shell of IPython.

    Args:
        shell: what `load_ipython_extension` is called with.
    """
    for name in _MAGICS:
        shell.register_magic_function(_magic(shell, name), "cell", name)


def _magic(shell: Any, kind: str) -> Callable[[str, str], None]:  # noqa: ANN401
    """One of them."""

    def run(line: str, cell: str) -> None:
        """Build a cell; the functions that the line names are put into the notebook."""
        names = line.replace(",", " ").split()
        if not names:
            sys.stderr.write(f"%%{kind}: name the functions to use in Python, e.g. `%%{kind} twice`\n")
            return
        try:
            found = functions(cell, names, cuda=kind == "cuda")
        except (BuildError, ValueError) as problem:
            sys.stderr.write(f"{problem}\n")  # a stack of Python's calls says nothing about the cell
            return
        shell.push(found)

    return run


def functions(cell: str, names: list[str], *, cuda: bool) -> dict[str, Any]:
    """Functions of a text in C++ or CUDA, by their names.

    Args:
        cell: the text; torch's headers are there.
        names: of functions that it defines.
        cuda: the text is CUDA.

    Raises:
        BuildError: it cannot be built.
        ValueError: it does not define a function.
    """
    declared = "\n".join(declaration(cell, name) for name in names)
    module = f"cell_{hashlib.sha256(cell.encode()).hexdigest()[:12]}"
    built = load_inline(module, declared if cuda else cell, cell if cuda else None, functions=names)
    return {name: getattr(built, name) for name in names}


def declaration(cell: str, name: str) -> str:
    """What declares a function.

    Args:
        cell: a text that defines it.
        name: its name.

    Raises:
        ValueError: the text does not.
    """
    # Between the parentheses of the parameters: types of functions, and `= {}`.
    parameters = r"(?:[^{};()]|\{\}|\((?:[^{};()]|\([^{};()]*\))*\))*"
    pattern = (
        rf"^[ \t]*(?!return\b)([\w:\[][^{{}};()=#]*?[\s*&]{re.escape(name)}\s*\({parameters}\)[^{{}};()=]*?)\s*\{{"
    )
    found = re.search(pattern, re.sub(r"//.*|/\*(?s:.*?)\*/", "", cell), re.MULTILINE)
    if found is None or not name.isidentifier():
        advice = f"begin a line with its definition, e.g. `torch::Tensor {name}(torch::Tensor x) {{`"
        raise ValueError(f"the cell defines no function `{name}`: {advice}")
    declared = re.sub(r"\b__host__\s*", "", found[1])  # for a compiler of C++
    return f"{declared};"
