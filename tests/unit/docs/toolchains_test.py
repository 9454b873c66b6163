"""docs/toolchains.md: the sizes and counts in its text are those of the lock."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from py_driver.fetch.entry import Origin
from py_driver.matrix.configurations import parse, spell
from py_driver.matrix.releases import Releases
from py_driver.matrix.select import select

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "toolchains.md"
TEXT = PAGE.read_text(encoding="utf-8")
MATRIX = Releases().matrix

SIZES = {
    "torch213-*-cpu-*": "torch 2.13, CPU",
    "torch213-*-cu130-*": "torch 2.13, CUDA 13.0",
    "*": "the default variants",
}
SEED = "torch2{4,5}-*-cu{118,124}-*"


def test_the_size_of_gcc() -> None:
    lock = Releases().lock
    more = set(lock.gcc_entries(["x86_64"])) - set(lock.entries_for([]))
    assert len(more) == 9
    assert f"nine archives of {sum(entry.size for entry in more) / 1e6:.0f} MB" in TEXT


@pytest.mark.parametrize("pattern", [*SIZES, SEED])
def test_the_counts_of_archives_and_whole_sizes(pattern: str) -> None:
    found = [(spell(configuration), is_default) for configuration, is_default in MATRIX.configurations()]
    default, others = ([name for name, is_default in found if is_default is wanted] for wanted in (True, False))
    names = select([pattern], default, others)
    entries = Releases().lock.entries_for(map(parse, names))
    whole = f"{sum(entry.size for entry in entries) / 1e6:.0f} MB"
    title = SIZES.get(pattern, "torch {2.4, 2.5} x {cxx11, cxx98} x {CUDA 11.8, 12.4}")
    [line] = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith(f"| {title} |")]
    assert [line[1], line[2], line[5]] == [str(len(names)), str(len(entries)), whole]


def test_every_origin_is_explained() -> None:
    assert re.findall(r"^\| `([\w-]+)` \| [^|]* \| [^|]* \|$", TEXT, re.MULTILINE) == [
        origin.value for origin in Origin
    ]
