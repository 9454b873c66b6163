# ruff: noqa: INP001  (a program of its own)
"""Writes the generated pages and blocks: `make pages`. With --check it writes nothing and names stale files.

A page is generated as a whole (docs/errors.md, docs/rules.md, the JSON schema), or has blocks between
`<!-- generated: NAME -->` and `<!-- end -->`. The Python that runs this has the driver's dependencies.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from docs.json_page import json_page  # noqa: E402  (the checkout is no installed package)
from docs.key_tables import archs, default_archs, keys, python_packages  # noqa: E402
from docs.release_tables import cells, cuda, openmp, rocm, support, variants  # noqa: E402
from docs.rules_page import rules  # noqa: E402
from docs.tables import row  # noqa: E402
from py_driver.cli.explain import read_texts, spell  # noqa: E402
from py_driver.errors import Code, ExitCode  # noqa: E402
from py_driver.manifest.schema import make_schema  # noqa: E402
from py_driver.manifest.tables import TABLES  # noqa: E402
from py_driver.output import Output  # noqa: E402
from py_driver.resources import resource  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

_DOCS = ROOT / "docs"
BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

_CHANGES = {
    "cold matrix": "all variants, empty cache",
    "a torch version more": "one more torch release",
    "an architecture more": "one more architecture",
}
"""Rows of the benchmark, and their names in README and on the first page of the site."""

_ERRORS = """\
# Errors

<!-- Written from py_driver/resources/codes.toml by docs/pages.py; edit that instead. -->

`driver explain E003` prints one of them, `driver explain` the table.
"""


def errors() -> str:
    """docs/errors.md: the table of all codes, and the text of each."""
    texts = read_texts()
    lines = [_ERRORS, "| code | name | exit code | meaning |", "|---|---|---|---|"]
    for code in Code:
        anchor = f"{code.number}-{spell(code)}".lower()
        exit_code = f"{code.exit_code.value} {code.exit_code.name}"
        lines.append(f"| [{code.number}](#{anchor}) | `{spell(code)}` | {exit_code} | {texts[code]['title']} |")
    for code in Code:
        lines += ["", f"## {code.number} {spell(code)}", "", f"**{texts[code]['title']}**", "", texts[code]["text"]]
    return "\n".join(lines) + "\n"


def schema() -> str:
    """docs/build-toml.schema.json, which `driver schema` prints."""
    return json.dumps(make_schema(), indent=2, ensure_ascii=False) + "\n"


def figures() -> str:
    """CPU seconds of the benchmark's light_torch, which is like most kernels, and the machine."""
    benchmark = importlib.import_module("page")
    results = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    columns, machine = results["light_torch"], results["machines"]["light_torch"]
    lines = [row("CPU seconds", "here", "other", "times less"), "|---|---:|---:|---:|\n"]
    for change, name in _CHANGES.items():
        ours, (_, theirs) = columns[benchmark.SPLIT][change]["cpu"], benchmark.best_peer(columns, change)
        lines.append(row(name, f"{ours:.0f}", f"{theirs:.0f}", f"**{theirs / ours:.2g}**"))
    where = f"{machine['cores']} cores of an {machine['processor']} with {machine['memory-gib']} GiB, {machine['date']}"
    return "".join([*lines, f"\nA kernel with `torch/all.h`, 9 architectures, 2 torch releases; {where}."])


def templates() -> str:
    """The tests and the speed of the templates on a GPU, and on which."""
    module = importlib.import_module("templates")
    records = json.loads(module.RECORDS.read_text(encoding="utf-8"))
    head, *rows = module.rows(records)
    lines = [row(*head), "|---|---|---|---:|---:|---:|---:|---:|\n", *(row(*cells) for cells in rows)]
    return "".join([*lines, f"\n{module.machine(records)}."])


def written() -> dict[Path, str]:
    """Every generated file, with its text.

    Raises:
        ValueError: a page lacks a block, or has an unknown block.
    """
    benchmark, simulation = (importlib.import_module(name) for name in ("page", "simulation"))
    blocks: dict[str, dict[str, Callable[[], str]]] = {
        "README.md": {"figures": figures, "support": support},
        "docs/build-toml.md": {
            **{declared.path or "file": partial(keys, declared) for declared in TABLES},
            "python-depends": python_packages,
            "archs": archs,
            "default-archs": default_archs,
        },
        "docs/index.md": {"figures": figures},
        "docs/kernels.md": {"templates": templates},
        "docs/remote.md": {"simulation": simulation.table},
        "docs/toolchains.md": {"variants": variants, "cells": cells, "cuda": cuda, "rocm": rocm, "openmp": openmp},
    }
    found: dict[Path, str] = {
        _DOCS / "ci" / "kernel.yml": resource("projects/common/.github/workflows/kernel.yml"),
        _DOCS / "build-toml.schema.json": schema(),
        _DOCS / "errors.md": errors(),
        _DOCS / "json.md": json_page(),
        _DOCS / "rules.md": rules(),
        **benchmark.written(),
    }
    for name, texts in blocks.items():
        page = (ROOT / name).read_text(encoding="utf-8")
        if sorted(names := [block[1] for block in BLOCK.findall(page)]) != sorted(texts):
            message = f"{name} has the blocks {', '.join(names)}; docs/pages.py writes {', '.join(texts)}"
            raise ValueError(message)
        found[ROOT / name] = BLOCK.sub(partial(_filled, texts), page)
    return found


def _filled(texts: dict[str, Callable[[], str]], block: re.Match[str]) -> str:
    return f"{block[1]}\n{texts[block[2]]()}\n{block[4]}"


def stale() -> dict[Path, str]:
    """The stale files, with their new texts."""
    return {
        path: text for path, text in written().items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main(arguments: list[str] | None = None) -> int:
    """Write or check the generated files; returns the exit code."""
    parser = argparse.ArgumentParser(description="Writes all that is generated in the pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; name stale files and exit with 1")
    check = parser.parse_args(arguments).check
    output = Output()
    found = stale()
    for path, text in found.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        output.say(f"{path.relative_to(ROOT)} {'is stale: run `make pages`' if check else 'is written'}")
    return ExitCode.DIFFERENCE if check and found else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
