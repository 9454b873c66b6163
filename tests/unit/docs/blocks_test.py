"""Every block of code on a page is code: parsed here by its language; tests/e2e/docs_test.py compiles C++ and CUDA."""

from __future__ import annotations

import ast
import json
import subprocess
from typing import TYPE_CHECKING

import pytest
import tomli
import yaml
from pages import PAGES, Block, blocks

if TYPE_CHECKING:
    from collections.abc import Callable


def _shell(text: str) -> None:
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


_PARSERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "python": ast.parse,  # Starlark too
    "sh": _shell,
    "toml": tomli.loads,
    "yaml": yaml.safe_load,
}
_COMPILED = {"cpp", "cuda"}
_EXCERPTS = {"asm", "ptx", "text"}
"""What a program has printed, or a few instructions of it."""


@pytest.mark.parametrize("block", [pytest.param(block, id=f"{block.page}:{block.line}") for block in blocks()])
def test_a_block_is_code_of_its_language(block: Block) -> None:
    if not block.wrong and block.language not in _COMPILED | _EXCERPTS:
        _PARSERS[block.language](block.text)


def test_every_block_says_its_language() -> None:
    for page, text in PAGES.items():
        fences = [line for line in text.splitlines() if line.lstrip().startswith("```")]
        assert all(line.strip() != "```" for line in fences[::2]), page
        assert all(line.strip() == "```" for line in fences[1::2]), page
