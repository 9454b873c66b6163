"""The card: the parts of it that a publication to a Hub in publish_test does not have."""

from __future__ import annotations

from typing import Any

import pytest
from clone import PROJECTS

from py_driver import __main__
from py_driver.manifest.locate import Source
from py_driver.manifest.model import Framework, Located, Manifest
from py_driver.publishing.card import card_facts, make_card

_SPAN = Source("build.toml", "").span(0, 1)
_VARIANT = "torch213-cxx11-rocm72-x86_64-linux"


def card(variants: dict[str, dict[str, Any]], files: dict[str, str] | None = None) -> str:
    """The card of a project with these variants and files."""
    manifest = Manifest(
        file="",
        edition=5,
        name=Located(value="re-lu", span=_SPAN),
        framework=Framework(span=_SPAN, src=(Located(value="torch-ext/binding.cpp", span=_SPAN),)),
        python_root="torch-ext/re_lu",
        license="MIT",
    )
    return make_card(card_facts(manifest, "me/re-lu", variants, files or {})).decode()


@pytest.mark.parametrize(
    ("archs", "expected"),
    [
        (["gfx1100", "gfx90a", "gfx942:sramecc+:xnack-"], "`gfx90a` `gfx942:sramecc+:xnack-` `gfx1100`"),
        (["10.0", "9.0a", "12.0+PTX", "8.0"], "`8.0` `9.0a` `10.0` `12.0+PTX`"),
        (["8.0 | evil", 8, None, "`"], "-"),
        ("8.0", "-"),
        (8, "-"),
        (None, "-"),
    ],
)
def test_architectures_are_sorted_and_nothing_else(archs: object, expected: str) -> None:
    assert f"| `{_VARIANT}` | 2.13 | cxx11 | `rocm72` | {expected} |\n" in card(
        {_VARIANT: {"backend": {"archs": archs}}}
    )


def test_what_is_needed_is_said_of_compiled_variants_only() -> None:
    assert "need glibc 2.28" in card({_VARIANT: {}})
    assert "need glibc 2.28" not in card({"torch-cpu": {}, "torch213-metal-aarch64-darwin": {}})


def test_functions_and_ops() -> None:
    files = {
        "torch-ext/re_lu/__init__.py": 'from ._ops import ops\nfrom .one import f\n__all__ = ["f"]\n',
        "torch-ext/re_lu/one.py": 'def f(x):\n    """First \\ud800 ``` <b>\n\n    Second."""\n',
        "torch-ext/binding.cpp": 'ops.def("f(Tensor x) -> Tensor");',
    }
    text = card({_VARIANT: {}}, files)
    assert "```python\nf(x)\n    First ? ``` <b>\n```\n" in text
    assert "that `re_lu.ops` stands for:\n\n```text\nf(Tensor x) -> Tensor\n```\n" in text
    assert "## What it has" not in card({_VARIANT: {}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"results": []}',
        '{"results": [{"workload": "w", "timingResults": {"mean_ms": 1' + "0" * 400 + "}}]}",
        '{"results": [], "machineInfo": {"gpu": "", "pytorchVersion": "", "backend": ""}}',
    ],
)
def test_report_that_is_none_is_left_out(text: str) -> None:
    assert "## Benchmarks" not in card({_VARIANT: {}}, {"benchmarks/x.json": text})


def test_op_that_no_compiler_sees_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["card", str(PROJECTS / "card_disabled_op")]) == 0
    text = capsys.readouterr().out
    assert "choose(int a, str mode='a|b', float? limit=None) -> int" in text
    assert "never" not in text
    assert "ghost" not in text
