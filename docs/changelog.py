# ruff: noqa: INP001  (a program of its own)
"""Moves the fragments of docs/news into CHANGELOG.md, under the version and today's date: python3 docs/changelog.py."""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

_FRAGMENT = re.compile(r"[^.]+\.(security|added|changed|fixed|removed)\.md")
_AREAS = ("security", "added", "changed", "fixed", "removed")
_AREA = re.compile(r"### (\w+)\n((?:(?!### ).*\n?)*)")
_UNRELEASED = "## Unreleased\n"


def fragments(root: Path) -> list[Path]:
    """The fragments of a checkout, sorted.

    Raises:
        ValueError: a file beside README.md is not named NAME.AREA.md.
    """
    found = sorted(path for path in (root / "docs" / "news").iterdir() if path.name != "README.md")
    if wrong := [path.name for path in found if not _FRAGMENT.fullmatch(path.name)]:
        message = (
            f"docs/news: {', '.join(wrong)}: a fragment is named NAME.AREA.md, with an AREA of {', '.join(_AREAS)}"
        )
        raise ValueError(message)
    return found


def released(root: Path, version: str, date: str) -> str:
    """The text of CHANGELOG.md with all news under a version; unchanged if it has that version, or without news.

    Paragraphs between `## Unreleased` and the first area introduce the version.

    Args:
        root: the checkout.
        version: the released version, e.g. `0.2.0`.
        date: its date, e.g. `2027-01-31`.
    """
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    before, head, rest = text.partition(_UNRELEASED)
    section, mark, after = rest.partition("\n## ")
    introduction = section.partition("### ")[0].strip()
    areas = {title.lower(): f"{body.strip()}\n" for title, body in _AREA.findall(section)}
    for path in fragments(root):
        area = path.name.split(".")[1]
        areas[area] = areas.get(area, "") + path.read_text(encoding="utf-8").strip() + "\n"
    if not areas or f"## [{version}]" in text:
        return text
    news = "\n".join(f"### {area.capitalize()}\n\n{areas[area]}" for area in _AREAS if area in areas)
    begin = f"{introduction}\n\n" if introduction else ""
    return f"{before}{head}\n## [{version}] - {date}\n\n{begin}{news}{mark}{after}"


def main() -> int:
    """Write the changelog of the checkout, and remove the fragments; returns the exit code."""
    root = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(root))
    from py_driver import __version__  # noqa: PLC0415  (the checkout is no installed package)

    changelog = root / "CHANGELOG.md"
    text = released(root, __version__, datetime.datetime.now(tz=datetime.UTC).date().isoformat())
    if text == changelog.read_text(encoding="utf-8"):
        sys.stderr.write(f"there is no news, or CHANGELOG.md has {__version__} already: raise the version first\n")
        return 1
    changelog.write_text(text, encoding="utf-8")
    for path in fragments(root):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
