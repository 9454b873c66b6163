"""Imports of a project's Python files, as its kernel has them."""

from __future__ import annotations

import pytest

from py_driver.adopting.python_imports import Names, rewrite

NAMES = Names("own_kernel", "own", frozenset(("own_cuda", "more")), frozenset(("own_ops",)))


def rewritten(text: str, depth: int | None = 0) -> str:
    found = rewrite("a.py", text.encode(), NAMES, depth)
    assert not found.losses
    return found.content.decode()


@pytest.mark.parametrize(
    ("text", "depth", "expected"),
    [
        ("import own_cuda\n", 0, "from . import own_cuda\n"),
        ("import own_cuda as backend\n", 1, "from .. import own_cuda as backend\n"),
        ("import os, own_cuda\n", 0, "import os; from . import own_cuda\n"),
        ("from own_cuda import f, g as h\n", 0, "from .own_cuda import f, g as h\n"),
        ("from own.a.b import (\n    f,  # why\n)\n", 1, "from ..a.b import (\n    f,  # why\n)\n"),
        ("from own import f\n", 2, "from ... import f\n"),
        ("import own.a\n", 0, "from . import a\n"),
        ("import own.a.b as c\n", 0, "from .a import b as c\n"),
        ("from . import a\nimport torch\nfrom other.own import f\n", 0, None),
        ("import own_cuda_more\nimport owner\n", 0, None),
        ("def f():\n    import own_cuda\n", 0, "def f():\n    from . import own_cuda\n"),
        ("x = 'ä'; import own_cuda\n", 0, "x = 'ä'; from . import own_cuda\n"),
        ("import own\n", None, "import own_kernel as own\n"),
        ("import own_cuda\n", None, "import own_kernel.own_cuda as own_cuda\n"),
        ("from own.a import f\n", None, "from own_kernel.a import f\n"),
        ("from own_cuda import f\n", None, "from own_kernel.own_cuda import f\n"),
        ("import own.a\n", None, "import own_kernel.a; import own_kernel as own\n"),
    ],
)
def test_imports_of_the_project(text: str, depth: int | None, expected: str | None) -> None:
    assert rewritten(text, depth) == (text if expected is None else expected)


def test_name_of_the_package_stays_where_it_is_used() -> None:
    text = rewritten("import own.a\n\nown.a.f()\n")
    assert text == "from . import a; own = __import__('sys').modules[__package__]\n\nown.a.f()\n"


def test_ops_are_those_of_the_kernel() -> None:
    text = (
        '"""Doc."""\nfrom __future__ import annotations\nimport torch\ntorch.ops.own_ops.f(1)\ntorch.ops.aten.add(1)\n'
    )
    assert rewritten(text) == text.replace(
        "annotations\n", "annotations\nfrom ._ops import ops as _kernel_ops\n"
    ).replace("torch.ops.own_ops", "_kernel_ops")


def test_names_of_ops_that_python_registers_are_in_the_namespace() -> None:
    text = '@torch.library.custom_op(f"{NAME}::f", mutates_args=())\ndef f(): ...\n'
    assert rewritten(text, 1) == (
        "from .._ops import add_op_namespace_prefix as _add_op_namespace_prefix\n"
        '@torch.library.custom_op(_add_op_namespace_prefix("f"), mutates_args=())\ndef f(): ...\n'
    )


def test_statement_that_loads_libraries_is_a_comment() -> None:
    found = rewrite("a.py", b"import torch\nfor name in ('a',):\n    torch.ops.load_library(name)\nx = 1\n", NAMES, 0)
    assert "# for name in ('a',):\n#     torch.ops.load_library(name)\nx = 1\n" in found.content.decode()
    assert [(loss.line, loss.missing) for loss in found.losses] == [(2, False)]


def test_names_in_strings_are_losses() -> None:
    text = "import importlib\nimportlib.import_module('own.a')\nimportlib.import_module('torch')\n"
    found = rewrite("a.py", text.encode(), NAMES, 0)
    assert [(loss.file, loss.line, loss.missing) for loss in found.losses] == [("a.py", 2, True)]
    broken = rewrite("b.py", b"def f(:\n", NAMES, 0)
    assert [(loss.file, loss.line) for loss in broken.losses] == [("b.py", 1)]
    assert broken.content == b"def f(:\n"
