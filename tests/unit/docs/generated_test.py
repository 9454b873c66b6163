"""docs/pages.py: the generated pages are fresh, and it says so where they are not."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pages = importlib.import_module("docs.pages")


def test_pages_are_fresh() -> None:
    assert list(pages.stale()) == []


def test_every_kind_of_page_is_written() -> None:
    names = {path.relative_to(pages.ROOT).as_posix() for path in pages.written()}
    assert names >= {
        "README.md",
        "docs/build-toml.md",
        "docs/build-toml.schema.json",
        "docs/errors.md",
        "docs/json.md",
        "docs/images/performance_summary.svg",
        "docs/performance.md",
        "docs/remote.md",
        "docs/rules.md",
        "docs/toolchains.md",
    }


@pytest.mark.parametrize("text", ["old", None], ids=["stale", "absent"])
def test_a_stale_page_is_named_and_written(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text, encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "written", lambda: {page: "new"})
    assert pages.main(["--check"]) == 1
    assert capsys.readouterr().err == "page.md is stale: run `make pages`\n"
    assert (page.read_text(encoding="utf-8") if page.exists() else None) == text
    assert pages.main([]) == 0
    assert page.read_text(encoding="utf-8") == "new"
    assert pages.main(["--check"]) == 0


def test_a_block_that_nothing_writes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text("<!-- generated: figures -->\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "rules", str)
    with pytest.raises(ValueError, match=r"README\.md has the blocks figures; docs/pages\.py writes figures, support"):
        pages.written()
