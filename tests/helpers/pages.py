"""The pages of the repository, and the blocks of code in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
}
FENCE = re.compile(r"^ *```([\w+]+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code.

    Attributes:
        page: the page.
        line: its first line.
        language: its language tag.
        text: its text.
        wrong: whether it is an example of a mistake.
    """

    page: str
    line: int
    language: str
    text: str
    wrong: bool


_HEAD = re.compile(r"(?:#|//) (?P<path>\w+/\S+)")
"""The first line of a block with a file of the page's project."""


def files(page: str) -> dict[str, str]:
    """The files of a page's project, by path; the first line of each block is its path."""
    found = {}
    for block in (block for block in blocks() if block.page == page):
        head, _, rest = block.text.partition("\n")
        if match := _HEAD.fullmatch(head):
            found[match["path"]] = rest
    return found


def blocks() -> Iterator[Block]:
    """All blocks of all pages, in order."""
    for page, text in PAGES.items():
        for found in FENCE.finditer(text):
            wrong = text[: found.start()].rstrip().endswith("\nWrong:")
            language, body = found.groups()
            yield Block(page, text.count("\n", 0, found.start()) + 1, language, body, wrong)
