"""`driver card` of examples/relu as it was built: the page says what the files of each variant say."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from clone import CPU, CU130, RELU, ROCM

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Built

pytestmark = [pytest.mark.e2e, pytest.mark.core]


class _Page(HTMLParser):
    """The text of a page, and the titles of its marks."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.marks: dict[str, str] = {}
        self._text: list[str] = []
        self.feed(text)
        self.close()
        self.text = " ".join("".join(self._text).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  (the base's)
        given = dict(attrs)
        if given.get("role") == "img" and (title := given.get("title")):
            name, _, state = title.partition(": ")
            self.marks[name] = state

    def handle_data(self, data: str) -> None:
        self._text.append(data)


def test_page_says_what_the_variants_say(relu: Built, tmp_path: Path) -> None:
    file = tmp_path / "relu.html"
    told = json.loads(relu.driver.run("card", relu.project, "--html", file, "--json").stdout)
    page = _Page(file.read_text(encoding="utf-8"))
    assert sorted(name for name, state in page.marks.items() if state == "built") == sorted(RELU)
    variants = {variant["variant"]: variant for variant in told["variants"]}
    assert sorted(variants) == sorted(page.marks)
    for name in RELU:
        place = relu.build / name
        metadata = json.loads((place / "metadata.json").read_text())
        variant = variants[name]
        assert variant["id"] == metadata["id"]
        assert metadata["id"] in page.text
        assert sorted(variant["archs"]) == sorted(metadata["backend"].get("archs", []))
        stated = {
            path["path"].rpartition(f"{name}/")[2]: base64.b64encode(bytes.fromhex(path["sha256"])).decode()
            for path in variant["files"]
        }
        assert stated.keys() == {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
        assert {path: stated[path] for path in metadata["digest"]["files"]} == metadata["digest"]["files"]
        assert all(path["sha256"] in page.text for path in variant["files"])
        assert variant["size"] == sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        assert metadata["provenance"]["kernel-builder"]["version"] == told["builder"]
    assert told["builder"] in page.text
    assert f"{len(RELU)} of {len(variants)} variants built" in page.text
    assert "relu(x: torch.Tensor, out: torch.Tensor | None=None) -> torch.Tensor" in page.text
    assert "relu(Tensor x) -> Tensor" in page.text
    assert "NVIDIA H200, torch 2.11.0+cu130, CUDA" in page.text
    assert "test_equals_torch" in page.text


def test_card_lists_what_is_built(relu: Built) -> None:
    card = relu.driver.run("card", relu.project).stdout
    rows = [line.split(" | ") for line in card.splitlines() if line.startswith("| `torch")]
    assert [row[0].strip("| `") for row in rows] == sorted(RELU)
    archs = {row[0].strip("| `"): row[4].removesuffix(" |").split() for row in rows}
    assert archs[CPU] == ["-"]
    assert archs[CU130] == ["`8.0`", "`8.6`", "`8.9`", "`9.0`", "`10.0`", "`12.0+PTX`"]
    assert archs[ROCM] == ["`gfx90a`", "`gfx942`", "`gfx1100`", "`gfx1201`"]
