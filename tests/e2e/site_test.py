"""The site of the pages: built with warnings as errors, every link, anchor and picture in it resolves, search finds."""

from __future__ import annotations

import json
import posixpath
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from clone import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e


class Html(HTMLParser):
    """What a page has and wants: its anchors, what its links lead to, and what a browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in {"stylesheet", "preload", "icon"}:
            self.loaded.append(given["href"])
        elif tag in {"img", "script"} and "src" in given:
            self.loaded.append(given["src"])


def build(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "docs" / "site" / "build.py"), f"--out={out}"]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return out / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Html]:
    written = [path for path in site.rglob("*.html") if "_static" not in path.parts]  # a template of the theme is there
    return {str(path.relative_to(site)): Html(path.read_text(encoding="utf-8")) for path in written}


def broken(site: Path, pages: dict[str, Html]) -> Iterator[str]:
    """Each reference within the site that leads nowhere."""
    for name, page in pages.items():
        for reference in (*page.links, *page.loaded):
            parts = urlsplit(reference)
            if parts.scheme or parts.netloc:
                continue
            beside = posixpath.join(posixpath.dirname(name), unquote(parts.path))
            path = posixpath.normpath(beside) if parts.path else name
            whole = not parts.fragment or (path in pages and unquote(parts.fragment) in pages[path].anchors)
            if path.startswith("../") or not (site / path).is_file() or not whole:
                yield f"{name}: {reference}"


def test_every_page_of_the_checkout_is_in_the_site(pages: dict[str, Html]) -> None:
    wanted = {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
    assert pages.keys() >= wanted | {"readme.html", "changelog.html", "contributing.html", "search.html"}
    assert {"source/examples/relu.html", "source/docs/ci/kernel.yml.html", "source/bazelrc.html"} <= pages.keys()
    listed = {urlsplit(link).path for link in pages["index.html"].links}
    assert (wanted | {"readme.html", "changelog.html", "contributing.html"}) - {"index.html"} <= listed


def test_every_link_anchor_and_picture_resolves(site: Path, pages: dict[str, Html]) -> None:
    assert list(broken(site, pages)) == []
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert {"_images/shared.svg"} <= set(pages["index.html"].loaded)
    assert len([address for address in pages["performance.html"].loaded if address.startswith("_images/")]) >= 5


def test_a_page_loads_nothing_from_elsewhere(pages: dict[str, Html]) -> None:
    assert [address for page in pages.values() for address in page.loaded if urlsplit(address).netloc] == []


def test_the_search_finds_a_command_with_its_option(site: Path) -> None:
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    found = []
    for stem in ("driver", "check", "header"):  # what `driver check --headers` is to the search
        places = index["terms"][stem]
        found.append(set(places if isinstance(places, list) else [places]))
    assert "cli" in {index["docnames"][number] for number in set.intersection(*found)}
    [[place, anchor]] = index["alltitles"]["E101 file-missing"]
    assert (index["docnames"][place], anchor) == ("errors", "e101-file-missing")


def test_a_link_that_leads_nowhere_fails(pristine: Path, tmp_path: Path) -> None:
    root = shutil.copytree(pristine, tmp_path / "checkout", symlinks=True)
    for arguments in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    page = root / "docs" / "rocm.md"
    lines = page.read_text(encoding="utf-8").count("\n")
    with page.open("a", encoding="utf-8") as file:
        file.write("\nSee [nothing](nowhere.md) and [no section](cli.md#nowhere).\n")
    done = build(root, tmp_path / "out")
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert [f"rocm.md:{lines + 2}: WARNING" in line for line in said] == [True, True], done.stderr
