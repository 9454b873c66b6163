"""`driver card`: what it prints, and the page of a kernel."""

from __future__ import annotations

import hashlib
import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from drawn import outside, pictures
from nasty import quoted
from tuned import FILES, MANIFEST, REPO, build, publish

from py_driver import __main__
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.publishing.described import Described, State, describe
from py_driver.publishing.kernel_page import amount, as_html, check_page, codes_of, matrix_of

if TYPE_CHECKING:
    from hub import Hub

ROOT = Path(__file__).parents[3]
BIDI = "\u202e"
HOSTILE = f"<script>alert('&\"')</script>{BIDI} {{{{ 7*7 }}}} ```"
VOID = {"meta"}


class Page(HTMLParser):
    """A page that was read: its tags, its links, its text, and the titles of its marks; each tag must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.marks: dict[str, str] = {}
        self.names: set[str] = set()
        self._open: list[str] = []
        self._text: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []
        self.text = " ".join("".join(self._text).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}
        given = dict(attrs)
        self.links += [str(given[name]) for name in ("href", "src") if name in given]
        if given.get("role") == "img" and (title := given.get("title")):
            self.marks[title.partition(": ")[0]] = title.partition(": ")[2]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self._text.append(data)


def looked_at(project: Path) -> Described:
    return describe(project, Releases(), Output())


def page_of(project: Path) -> Page:
    return Page(as_html(looked_at(project)))


def card(*arguments: str | Path) -> int:
    return __main__.main(["card", *map(str, arguments)])


def test_card_is_the_one_that_publish_writes(hub: Hub, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(hub, project)
    files = hub.repositories[REPO].files("main")
    assert files is not None
    assert card(project) == 0
    assert capsys.readouterr().out.encode() == files["README.md"]


def test_page_has_the_facts_of_what_is_built(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "page.html"
    assert card(project, "--html", file, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    page = Page(file.read_text(encoding="utf-8"))
    assert page.marks == {"torch-cpu": "built", "torch-cuda": "built"}
    assert 'tuned = kernels.get_kernel("me/tuned", version=3, trust_remote_code=["me/tuned"])' in page.text
    for name in ("torch-cpu", "torch-cuda"):
        place = project / "build" / name
        metadata = json.loads((place / "metadata.json").read_text())
        size = sum(path.stat().st_size for path in place.iterdir())
        [variant] = [variant for variant in told["variants"] if variant["variant"] == name]
        assert (variant["state"], variant["id"], variant["size"]) == ("built", metadata["id"], size)
        assert metadata["id"] in page.text
        assert amount(size) in page.text
        for one in variant["files"]:
            digest = hashlib.sha256((project / one["path"]).read_bytes()).hexdigest()
            assert one["sha256"] == digest
            assert digest in page.text
        assert {path["path"] for path in variant["files"]} == {
            path.relative_to(project).as_posix() for path in place.iterdir()
        }
    assert "rules_torch_kernels" in page.text
    assert "none here; driver publish writes SBOM and provenance" in page.text


def test_page_says_what_is_not_there(project: Path) -> None:
    shutil.rmtree(project / "build")
    page = page_of(project)
    assert set(page.marks.values()) == {"not built, built by default"}
    for said in ("Not built: build/ has no variant", "Not benchmarked: ", "No tests: ", "no git repository has them"):
        assert said in page.text
    assert "0 of 2 variants built" in page.text


def test_documents_that_are_there_are_named(project: Path) -> None:
    (project / "sbom").mkdir()
    (project / "sbom" / "torch-cpu.cdx.json").touch()
    [first, second] = looked_at(project).variants
    assert (first.documents, second.documents) == (("sbom/torch-cpu.cdx.json",), ())
    assert "sbom/torch-cpu.cdx.json" in page_of(project).text


def test_variant_that_changed_is_not_on_the_card(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "build" / "torch-cuda" / "weights.bin").write_bytes(b"other")
    (project / "build" / "somebody's").mkdir()
    assert card(project) == 0
    said = capsys.readouterr()
    assert "`torch-cpu`" in said.out
    assert "`torch-cuda`" not in said.out
    assert (
        "build/torch-cuda is not on the card: it has changed since it was built: weights.bin has other bytes"
        in said.err
    )
    assert "build/somebody's is not on the card: not a variant of the project" in said.err
    page = page_of(project)
    assert page.marks == {"torch-cpu": "built", "torch-cuda": "changed"}
    assert "weights.bin has other bytes" in page.text


def test_variant_for_this_machine_alone_is_not_on_the_card(project: Path) -> None:
    file = project / "build" / "torch-cuda" / "metadata.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "only-archs": ["9.0"]}))
    [_, variant] = looked_at(project).variants
    assert variant.state is State.CHANGED
    assert variant.problem == "it was built with `--archs 9.0`, for this machine's use only"


def test_all_text_is_escaped(project: Path) -> None:
    address = """https://example.org/"onclick='x'<b>"""
    license_ = f"license = {quoted(HOSTILE.replace(BIDI, ''))}\nsource = {quoted(address)}"
    (project / "build.toml").write_text(MANIFEST.replace('license = "Apache-2.0"', license_))
    source = f'"""{HOSTILE}"""\n\ndef f(x="{HOSTILE[:8]}"):\n    """{HOSTILE}"""\n'
    (project / "torch-ext" / "tuned" / "__init__.py").write_text(source)
    for variant in ("torch-cpu", "torch-cuda"):
        build(project, variant, FILES | {"__init__.py": source.encode(), "<b>&.bin": b""})
    for directory in ("tests", "benchmarks"):
        (project / directory).mkdir()
    (project / "tests" / "test_<i>.py").write_text(
        "def test_one(): ...\nclass TestMore:\n    def test_two(self): ...\n"
    )
    report = {
        "machineInfo": {"gpu": HOSTILE, "pytorchVersion": HOSTILE, "backend": "CUDA"},
        "results": [{"workload": HOSTILE, "timingResults": {"mean_ms": 1, "min_ms": 1, "iqr_ms": 0}}],
    }
    (project / "benchmarks" / "x.json").write_text(json.dumps(report))
    text = as_html(looked_at(project))
    page = Page(text)
    assert {"script", "i", "link", "img", "iframe", "object"}.isdisjoint(page.tags)
    assert page.tags.count("b") == 5
    assert not [name for name in page.names if name.startswith("on")]
    assert page.links == [address]
    assert BIDI not in text
    # The package's docstring and the function's, the GPU, torch's version, and the workload; the licence.
    assert page.text.count("<script>alert('&\"')</script>\\u202e {{ 7*7 }}") == 5
    assert page.text.count("<script>alert('&\"')</script> {{ 7*7 }}") == 1
    assert "test_<i>.py: 2 tests" in page.text
    assert "TestMore::test_two" in page.text


def test_page_needs_nothing(project: Path) -> None:
    manifest = MANIFEST.replace("[general.hub]", 'source = "https://example.org/a"\n[general.hub]')
    (project / "build.toml").write_text(manifest)
    text = as_html(looked_at(project))
    page = Page(text)
    assert page.links == ["https://example.org/a"]
    assert "src" not in page.names
    assert all(sign not in text for sign in ("url(", "@import", "<script", "<link", "<img"))
    assert text.count("://") == 2  # the link and its text


def test_same_project_gives_the_same_page(project: Path, tmp_path: Path) -> None:
    (project / "build" / "torch-cuda" / "weights.bin").unlink()
    first = as_html(looked_at(project))
    assert as_html(looked_at(project)) == first
    other = shutil.copytree(project, tmp_path / "deeper" / "elsewhere")
    assert as_html(looked_at(other)) == first


def test_bars_are_as_long_as_what_was_measured(project: Path) -> None:
    timing = {"mean_ms": 9.0, "min_ms": 0.4, "iqr_ms": 0.1}
    times = {"median_us": 500, "interval_us": [490, 510]}
    results = [
        {"workload": "alone", "timingResults": {**timing, "mean_ms": 0.25}},
        {"workload": "both", "timingResults": {**timing, "mean_ms": 0.5}, "times": times}
        | {"reference": {"median_us": 1000, "interval_us": [990, 1010]}},
    ]
    machine = {"gpu": "G", "pytorchVersion": "2.13", "backend": "CUDA"}
    (project / "benchmarks").mkdir()
    (project / "benchmarks" / "x.json").write_text(json.dumps({"machineInfo": machine, "results": results}))
    text = as_html(looked_at(project))
    assert '<rect y="2" height="6" width="25.00">' in text
    assert '<rect class="faster" y="1" height="4" width="50.00">' in text
    assert '<rect class="reference" y="6" height="3" width="100.00">' in text
    assert "0.5 ms, 2.00x" in Page(text).text
    drawn = pictures(text)
    assert len(drawn) == 2 + 2
    assert [box for picture in drawn for box in outside(picture)] == []


def test_matrix_has_the_newest_torch_first_and_each_variant_once() -> None:
    kernel = looked_at(ROOT / "examples" / "relu")
    matrix = matrix_of(kernel.variants)
    titles = [line.title for line in matrix.lines]
    assert titles[:2] == ["2.15", "2.14"]
    assert titles[-4:] == ["2.5", "2.5 (cxx98)", "2.4", "2.4 (cxx98)"]
    assert matrix.columns[:3] == ("cpu", "cu135", "cu132")
    assert matrix.columns[-3:] == ("cu118", "rocm72", "rocm71")
    assert matrix.cpus == ("x86_64", "aarch64")
    placed = [cell.row.name for line in matrix.lines for field in line.fields for cell in field]
    assert sorted(placed) == sorted(variant.row.name for variant in kernel.variants)
    assert len(set(placed)) == len(placed)
    archs = {code.backend: [arch for arch, _ in code.archs] for code in codes_of(kernel.variants)}
    assert archs["cu130"] == ["8.0", "8.6", "8.9", "9.0", "10.0", "12.0+PTX"]
    assert "cpu" not in archs


@pytest.mark.parametrize(
    ("project", "title"),
    [("stable", "2.9 and later (stable ABI)"), ("universal", "any torch"), ("tvm_ffi", "tvm-ffi 0.1")],
)
def test_rows_of_other_kinds(project: str, title: str) -> None:
    variants = looked_at(ROOT / "tests" / "e2e" / "projects" / project).variants
    assert title in [line.title for line in matrix_of(variants).lines]
    assert {variant.state for variant in variants} == {State.MISSING}


def test_page_takes_the_place_of_a_page_alone(project: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert card(project, "--html", page) == 0
    before = page.read_bytes()
    assert card(project, "--html", page) == 0
    assert page.read_bytes() == before
    page.write_text("<!DOCTYPE html>\n<title>mine</title>\n")
    with pytest.raises(DriverError) as caught:
        check_page(page)
    assert caught.value.diagnostics[0].code is Code.FOREIGN_FILE
    assert card(project, "--html", page) == 2
    assert "mine" in page.read_text()
    (tmp_path / "x.html").mkdir()
    assert card(project, "--html", tmp_path / "x.html") == 2
    assert card(project, "--html", tmp_path / "x.txt") == 2
    assert not (tmp_path / "x.txt").exists()


def test_repository_is_named_by_build_toml_or_the_command_line(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert card(project, "--repo-id", "you/other") == 0
    assert 'kernels.get_kernel("you/other", version=3, trust_remote_code=["you/other"])' in capsys.readouterr().out
    assert card(project, "--repo-id", "nonsense") == 2
    assert "`nonsense` is not the name of a repository" in capsys.readouterr().err
    (project / "build.toml").write_text(
        MANIFEST.partition("[general.hub]")[0] + '[torch-noarch]\npyext = ["py", "bin"]\n'
    )
    assert card(project) == 0
    assert 'tuned = kernels.get_local_kernel(Path("build"))' in capsys.readouterr().out
    shutil.rmtree(project / "build")
    assert card(project) == 0
    assert "## Variants\n\nThe client loads the variant that fits the installed torch.\n\nNo variant is built." in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0 bytes"), (999, "999 bytes"), (55960, "56.0 kB"), (3 * 10**12, "3000.0 GB")]
)
def test_sizes_for_people(size: int, said: str) -> None:
    assert amount(size) == said
