"""`driver index`: the pages of a package index, and which files it leaves alone."""

from __future__ import annotations

import hashlib
import json
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest
from wheels import small_wheel

from py_driver import __main__
from py_driver.errors import Code, DriverError
from py_driver.publishing.wheel_index import write_index

CU130 = "1.0+cu130.torch213"
CU126 = "1.0+cu126.torch211"


class Anchors(HTMLParser):
    """The links of a page, with their attributes."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append({name: value or "" for name, value in attrs})


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    directory = tmp_path / "dist"
    directory.mkdir()
    for version in (CU130, CU126, "0.9"):
        small_wheel(directory, "demo_kernel", version, python=">=3.9,<4")
    small_wheel(directory, "other", "2.0", python="")
    return directory


def test_links_lead_to_wheels_and_metadata(dist: Path) -> None:
    write_index(dist)
    root = Anchors(dist / "simple" / "index.html").found
    assert [anchor["href"] for anchor in root] == ["demo-kernel/", "other/"]
    links = Anchors(dist / "simple" / "demo-kernel" / "index.html").found
    assert len(links) == 3
    for link in links:
        address, _, digest = link["href"].partition("#")
        assert "+" not in address
        wheel = dist / unquote(urljoin("http://host/simple/demo-kernel/", address).removeprefix("http://host/"))
        assert digest == f"sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}"
        copy = Path(f"{wheel}.metadata").read_bytes()
        with zipfile.ZipFile(wheel) as archive:
            assert copy == archive.read(next(name for name in archive.namelist() if name.endswith("METADATA")))
        assert link["data-core-metadata"] == f"sha256={hashlib.sha256(copy).hexdigest()}"
        assert link["data-requires-python"] == ">=3.9,<4"
    assert "data-requires-python" not in Anchors(dist / "simple" / "other" / "index.html").found[0]


def test_data_are_those_of_the_page(dist: Path) -> None:
    write_index(dist)
    page = json.loads((dist / "simple" / "demo-kernel" / "index.json").read_bytes())
    assert page["meta"]["api-version"] == "1.1"
    assert page["name"] == "demo-kernel"
    assert page["versions"] == ["0.9", CU126, CU130]
    links = Anchors(dist / "simple" / "demo-kernel" / "index.html").found
    for file, link in zip(page["files"], links, strict=True):
        assert f"{file['url']}#sha256={file['hashes']['sha256']}" == link["href"]
        assert file["requires-python"] == link["data-requires-python"]
        assert f"sha256={file['core-metadata']['sha256']}" == link["data-core-metadata"]
        assert file["size"] == (dist / file["filename"]).stat().st_size
    root = json.loads((dist / "simple" / "index.json").read_bytes())
    assert root["projects"] == [{"name": "demo-kernel"}, {"name": "other"}]


def test_same_wheels_give_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    write_index(dist)
    before = contents(dist)
    write_index(dist)
    assert contents(dist) == before
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    for path in sorted(dist.glob("*.whl"), reverse=True):
        (copy / path.name).write_bytes(path.read_bytes())
    write_index(copy)
    assert contents(copy) == before


def test_entries_of_removed_wheels_go_and_other_files_stay(dist: Path) -> None:
    write_index(dist)
    for name in ("notes.txt", "foreign.whl.metadata", "simple/other/notes.txt", "simple/mine/index.html"):
        (dist / name).parent.mkdir(exist_ok=True)
        (dist / name).write_text(name)
    small_wheel(dist, "demo_kernel", "0.9", more="Keywords: changed\n")
    for name in (f"demo_kernel-{CU126}", "other-2.0"):
        (dist / f"{name}-py3-none-any.whl").unlink()
    assert write_index(dist).removed == ["other"]
    left = contents(dist)
    copies = {name for name in left if name.endswith(".metadata")}
    versions = (CU130, "0.9")
    assert copies == {"foreign.whl.metadata", *(f"demo_kernel-{v}-py3-none-any.whl.metadata" for v in versions)}
    assert b"Keywords: changed" in left["demo_kernel-0.9-py3-none-any.whl.metadata"]
    assert left["simple/other/notes.txt"] == b"simple/other/notes.txt"
    assert left["simple/mine/index.html"] == b"simple/mine/index.html"
    assert "simple/other/index.html" not in left
    assert CU126.encode() not in left["simple/demo-kernel/index.json"]
    for path in dist.glob("*.whl"):
        path.unlink()
    write_index(dist)
    assert json.loads((dist / "simple" / "index.json").read_bytes())["projects"] == []
    assert not (dist / "simple" / "demo-kernel").exists()


@pytest.mark.parametrize(
    "name", ["simple/index.html", "simple/other/index.json", "other-2.0-py3-none-any.whl.metadata"]
)
def test_files_of_others_are_not_overwritten(dist: Path, name: str) -> None:
    (dist / name).parent.mkdir(parents=True, exist_ok=True)
    (dist / name).write_text("mine")
    before = contents(dist)
    with pytest.raises(DriverError) as failure:
        write_index(dist)
    assert failure.value.diagnostics[0].code is Code.FOREIGN_FILE
    assert contents(dist) == before


def test_all_bad_wheels_are_named_and_nothing_is_written(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dist / "broken-1.0-py3-none-any.whl").write_bytes(b"PK no wheel")
    (dist / "no_wheel_name.whl").write_bytes(b"")
    (dist / "folder-1.0-py3-none-any.whl").mkdir()
    (dist / "renamed-3.0-py3-none-any.whl").write_bytes((dist / "other-2.0-py3-none-any.whl").read_bytes())
    with zipfile.ZipFile(dist / "empty-1.0-py3-none-any.whl", "w"):
        pass
    assert __main__.main(["index", str(dist)]) == 2
    said = capsys.readouterr().err
    for name in ("broken", "no_wheel_name", "folder", "renamed", "empty"):
        assert f"{dist}/{name}" in said
    assert "its metadata says `other 2.0`" in said
    assert not (dist / "simple").exists()


def test_directory_without_wheels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        assert __main__.main(["index", str(directory)]) == 2
        assert "error[E101]" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_is_listed_as_json(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["index", str(dist), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["directory"] == str(dist / "simple")
    assert said["projects"]["other"] == ["other-2.0-py3-none-any.whl"]
