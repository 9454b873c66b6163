"""The fragments of docs/news become a section of CHANGELOG.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.changelog import fragments, released

ROOT = Path(__file__).parents[3]
OLD = "# Changelog\n\n## Unreleased\n\n{news}## [0.1.0] - 2026-11-24\n\n### The driver\n\n- It is there.\n"


def checkout(tmp_path: Path, news: str, **texts: str) -> Path:
    directory = tmp_path / "docs" / "news"
    directory.mkdir(parents=True)
    (directory / "README.md").write_text("# News\n", encoding="utf-8")
    for name, text in texts.items():
        (directory / f"{name.replace('_', '.')}.md").write_text(text, encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(OLD.format(news=news), encoding="utf-8")
    return tmp_path


def test_fragments_join_what_is_unreleased_by_area_after_its_introduction(tmp_path: Path) -> None:
    news = "What counts.\n\nAnd more.\n\n### Added\n\n- Old.\n\n### Fixed\n\n- Older,\n  of two lines.\n\n"
    root = checkout(tmp_path, news, b_added="- B.", a_added="- A.\n- AA.\n", x_security="- S.\n")
    assert released(root, "0.2.0", "2027-01-31") == (
        "# Changelog\n\n## Unreleased\n\n## [0.2.0] - 2027-01-31\n\nWhat counts.\n\nAnd more.\n\n"
        "### Security\n\n- S.\n\n### Added\n\n- Old.\n- A.\n- AA.\n- B.\n\n### Fixed\n\n- Older,\n  of two lines.\n\n"
        "## [0.1.0] - 2026-11-24\n\n### The driver\n\n- It is there.\n"
    )


@pytest.mark.parametrize(("version", "texts"), [("0.1.0", {"a_added": "- A.\n"}), ("0.2.0", {})])
def test_a_known_version_and_no_news_change_nothing(version: str, texts: dict[str, str], tmp_path: Path) -> None:
    root = checkout(tmp_path, "", **texts)
    assert released(root, version, "2027-01-31") == OLD.format(news="")


def test_a_fragment_of_no_area_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"docs/news: a\.other\.md: a fragment is named NAME\.AREA\.md"):
        released(checkout(tmp_path, "", a_other="- A.\n"), "0.2.0", "2027-01-31")


def test_fragments_of_the_checkout_are_lists() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in fragments(ROOT)}
    assert [name for name, text in texts.items() if not text.startswith("- ")] == []
