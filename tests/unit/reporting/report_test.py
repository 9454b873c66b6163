"""The report of a build: counts, what variants share, texts of each source, and the page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from compiler_texts import PTX, TEXT

from py_driver import __main__
from py_driver.actions.executed import count_actions, trace_actions
from py_driver.actions.phases import phases
from py_driver.bazel.spawns import Spawn
from py_driver.building import build as building
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.reporting.report import Report, as_json, make_report
from py_driver.reporting.report_page import as_html, columns, runs, ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).parents[3]
TEMPLATE = (ROOT / "py_driver" / "resources" / "report.html.j2").read_text(encoding="utf-8")


def _path(configuration: str, section: str, name: str) -> str:
    return f"bazel-out/{configuration}/bin/projects/p/{section}.objects/{name}"


def _record(variant: str, *actions: str) -> dict[str, Any]:
    return {"variant": variant, "directory": f"bazel-out/{variant}/bin/projects/p/{variant}", "steps": list(actions)}


def _spawn(path: str, *, key: str = "", seconds: float | None = None, digest: str = "") -> Spawn:
    runner = "disk cache hit" if seconds is None else "linux-sandbox"
    return Spawn(key=key or path, runner=runner, seconds=seconds, outputs={path: digest})


def _report(
    records: list[dict[str, Any]], spawns: Iterable[Spawn], contents: Mapping[str, bytes] | None = None
) -> Report:
    actions = trace_actions(records, {}, spawns)
    return make_report("p", count_actions(records, actions), actions, (contents or {}).get)


def _page(report: Report) -> str:
    return as_html(report, TEMPLATE)


def _did(report: Report) -> list[tuple[str, str | None, list[tuple[str, str, float]]]]:
    return [(s.mnemonic, s.arch, [(p.variant, p.did.value, p.seconds) for p in s.variants]) for s in report.actions]


class _Balance(HTMLParser):
    """Collects tags, attributes and text, and asserts that every tag is closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  (the base's)
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _parsed(page: str) -> _Balance:
    parser = _Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def _phases(configuration: str, *archs: str, section: str = "k", source: str = "a.cu") -> list[str]:
    names = [f"{arch}/device.{kind}" for arch in archs for kind in ("ii", "ptx", "cubin")]
    phases = [f"{source}.phases/{name}" for name in ("host.ii", *names, "fatbin.o", "cudafe1.cpp", "host.o")]
    return [_path(configuration, section, name) for name in phases]


def test_action_of_two_variants_is_one_action() -> None:
    path = _path("1", "k", "a.cu.o")
    report = _report([_record("x", path), _record("y", path)], [_spawn(path, seconds=2.0)])
    assert _did(report) == [("KernelCudaCompile", None, [("x", "run", 2.0), ("y", "shared", 0.0)])]
    assert [part.how for part in report.actions[0].variants] == ["linux-sandbox", ""]


def test_actions_with_equal_commands_and_inputs_are_one_action() -> None:
    one, two = _path("1", "k", "a.cu.o"), _path("2", "k", "a.cu.o")
    records = [_record("x", one), _record("y", two)]
    report = _report(records, [_spawn(one, key="k"), _spawn(two, key="k", seconds=2.0)])
    assert _did(report) == [("KernelCudaCompile", None, [("x", "shared", 0.0), ("y", "run", 2.0)])]
    apart = _report(records, [_spawn(one, key="1"), _spawn(two, key="2", seconds=2.0)])
    assert [action.variants[0].did for action in apart.actions] == ["cached", "run"]
    assert [action.variants[0].how for action in apart.actions] == ["disk cache hit", "linux-sandbox"]


def test_counts_agree_with_each_other() -> None:
    first, second = _phases("1", "80", "90a"), _phases("2", "80")
    records = [_record("x", *first), _record("y", *first), _record("z", *second)]
    spawns = [_spawn(path, key=path.partition("/bin/")[2], seconds=1.5) for path in first]
    spawns += [_spawn(path, key=path.partition("/bin/")[2]) for path in second[:4]]
    report = _report(records, spawns)
    value = as_json(report)
    for key in ("run", "shared", "cached", "seconds"):
        assert sum(total[key] for total in value["totals"].values()) == sum(
            variant[key] for variant in value["variants"]
        )
    for key in ("run", "shared", "cached"):
        parts = [part for action in value["actions"] for part in action["variants"]]
        assert sum(part["did"] == key for part in parts) == sum(variant[key] for variant in value["variants"])
    counts = [(variant["run"], variant["shared"], variant["cached"]) for variant in value["variants"]]
    assert counts == [(10, 0, 0), (0, 10, 0), (0, 4, 3)]
    assert value["totals"]["CudaAssemble"] == {"run": 2, "shared": 3, "cached": 0, "seconds": 3.0}


def test_actions_are_in_the_order_of_the_phases() -> None:
    order = [
        (action.mnemonic, action.arch) for action in _report([_record("x", *_phases("1", "120", "90a"))], []).actions
    ]
    assert order[0] == ("CudaPreprocess", None)
    device = ["CudaPreprocess", "CudaDeviceCompile", "CudaAssemble"]
    assert order[1:7] == [(name, arch) for arch in ("sm_90a", "sm_120") for name in device]
    assert order[7:] == [(name, None) for name in ("CudaFatbinary", "CudaFrontend", "CudaHostCompile")]


def test_it_says_with_which_headers_of_torch_a_source_was_compiled() -> None:
    records, spawns = [], []
    contents = {"n": b"needed\n", "a": b"all\ntorch/serialize.h declares `save`\n"}
    for variant, source, digest in (
        ("x", "a.cu", "n"),
        ("y", "a.cu", "a"),
        ("z", "b.cpp", "a"),
        ("u", "b.cpp", "gone"),
    ):
        path, told = _path(variant, "k", f"{source}.o"), _path(variant, "k", f"{source}.phases/headers.txt")
        actions = [_path(variant, "k", f"{source}.phases/host.o")] if source == "a.cu" else []
        records.append(_record(variant, *actions, path))
        mnemonic = "CudaFallback" if source == "a.cu" else "KernelCxxCompile"
        spawns.append(replace(_spawn(path), mnemonic=mnemonic, outputs={path: "", told: digest}))
    report = _report(records, spawns, contents)
    found = {(headers.variants, headers.read, headers.why) for source in report.sources for headers in source.torch}
    why = "torch/serialize.h declares `save`"
    assert found == {
        (("x",), "needed", ""),
        (("y",), "all", why),
        (("z",), "all", why),
        (("u",), "unknown", ""),
    }
    assert "compiled with all headers: torch/serialize.h declares `save`." in _page(report)


def test_json_has_the_documented_shape() -> None:
    phases = _phases("1", "80")
    value = as_json(_report([_record("x", *phases)], [_spawn(phases[0], digest="d")], {"d": TEXT.encode()}))
    assert list(value) == ["version", "name", "variants", "actions", "sources", "totals", "timeline"]
    assert value["version"] == 2
    assert list(value["variants"][0]) == ["variant", "run", "shared", "cached", "seconds"]
    assert list(value["actions"][0]) == ["source", "section", "mnemonic", "arch", "variants"]
    assert list(value["actions"][0]["variants"][0]) == ["variant", "did", "seconds", "how", "why"]
    [source] = value["sources"]
    assert list(source) == ["source", "texts", "ptx", "torch"]
    assert list(source["texts"][0]) == ["section", "variants", "share"]
    assert list(source["texts"][0]["share"]) == ["lines", "size", "source", "compiler", "headers", "advice"]
    assert list(source["texts"][0]["share"]["headers"][0]) == ["name", "lines", "size", "percent"]
    assert list(source["ptx"][0]) == ["section", "variants", "archs", "unknown", "equal"]
    assert list(value["totals"]["CudaAssemble"]) == ["run", "shared", "cached", "seconds"]
    assert value["timeline"] is None
    spawns = [replace(_spawn(phases[0], seconds=1.0), start=5.0)]
    line = as_json(_report([_record("x", *phases)], spawns))["timeline"]
    assert list(line) == ["seconds", "lanes", "critical", "bars"]
    place = ["source", "section", "mnemonic", "arch", "variant"]
    assert list(line["bars"][0]) == [*place, "start", "seconds", "lane", "critical"]
    page = (ROOT / "docs" / "build-report.md").read_text(encoding="utf-8")
    keys = {
        *line,
        *line["bars"][0],
        *value,
        *value["actions"][0],
        *source,
        *source["texts"][0]["share"],
        *source["ptx"][0],
        "did",
        "how",
        "percent",
    }
    assert {key for key in keys if f"`{key}`" not in page} == set()
    assert json.loads(json.dumps(value))["actions"][0]["variants"][0]["did"] == "cached"


def test_variants_that_share_stand_beside_each_other() -> None:
    actions = {"a": "1", "b": "2", "c": "1", "d": "2", "e": "1"}
    records = [_record(name, *_phases(configuration, "80")) for name, configuration in actions.items()]
    report = _report(records, [])
    names = columns(report)
    assert names == ["a", "c", "e", "b", "d"]
    assert [[[at for at, _ in run] for run in runs(action, names)] for action in report.actions[:2]] == [
        [[0, 1, 2]],
        [[3, 4]],
    ]
    assert [[at for at, _ in run] for run in runs(report.actions[0], ["a", "b", "c", "e"])] == [[0], [2, 3]]
    assert columns(_report([], [])) == []


def test_a_box_spans_its_variants_once_and_a_line_leads_over_others() -> None:
    both, alone = _path("1", "k", "a.cu.o"), _path("2", "k", "b.cu.o")
    page = _page(_report([_record("x", both, alone), _record("y", both)], [_spawn(both, seconds=61.0)]))
    assert page.count('<g class="action">') == 2
    assert [page.count(f'<rect class="{did}"') for did in ("run", "shared", "cached")] == [1, 1, 1]
    assert page.count('class="outline"') == 2
    assert "compile with nvcc in one (KernelCudaCompile), of a.cu: run for x, linux-sandbox, 61.0 s" in page
    assert 'class="link"' not in page
    far = _path("3", "k", "c.cu.o")
    near = [_path("4", "k", f"{name}.cu.o") for name in "de"]
    records = [_record("x", far, near[0]), _record("y", *near), _record("z", far, near[1])]
    assert _page(_report(records, [])).count('class="link"') == 1


def test_equal_ptx_is_found_for_each_variant() -> None:
    phases, other = _phases("1", "80", "86", "89", "90"), _phases("2", "80", "90")
    known = {"a": PTX.format("80", "ret;"), "b": PTX.format("86", "ret;"), "c": PTX.format("90", "exit;")}
    digests = dict(zip(phases[2:13:3], ("a", "b", "gone", "c"), strict=True))
    spawns = [_spawn(path, seconds=1.0, digest=digests.get(path, "")) for path in phases]
    records = [
        _record("x", *phases),
        _record("y", *phases),
        _record("z", *other),
        _record("w", _path("3", "k", "a.cu.o")),
    ]
    [source] = _report(records, spawns, {name: text.encode() for name, text in known.items()}).sources
    found = [(comparison.variants, comparison.archs, comparison.unknown, comparison.equal) for comparison in source.ptx]
    assert found == [
        (("x", "y"), ("sm_80", "sm_86", "sm_90"), ("sm_89",), (("sm_80", "sm_86"),)),
        (("z",), (), ("sm_80", "sm_90"), ()),
        (("w",), (), (), ()),
    ]
    page = " ".join(_page(_report(records, spawns, {name: text.encode() for name, text in known.items()})).split())
    assert "sm_80 and sm_86 have equal PTX. Unknown: sm_89." in page
    assert "Unknown: one action compiles it for all architectures." in page


def test_headers_are_said_for_variants_with_the_same_text() -> None:
    paths = [_phases(configuration, "80") for configuration in ("1", "2", "3")]
    records = [_record(f"cell{at}", *actions) for at, actions in enumerate(paths)] + [
        _record("cpp", _path("4", "o", "b.cpp.o"))
    ]
    spawns = [_spawn(actions[0], digest=digest) for actions, digest in zip(paths[:2], ("d", "d"), strict=True)]
    report = _report(records, spawns, {"d": TEXT.encode()})
    assert [[(text.variants, text.share is not None) for text in source.texts] for source in report.sources] == [
        [(("cell0", "cell1"), True), (("cell2",), False)],
        [(("cpp",), False)],
    ]
    assert report.sources[1].ptx == ()
    page = _page(report)
    assert "torch/all.h brings 6 of 13 lines (46 %), 46 bytes" in page
    assert "k: cell2: unknown" in page


def test_page_escapes_and_needs_nothing() -> None:
    name = "<script>alert('&\"')</script>\u202e\n.cu"
    paths = _phases("1", "80", source=name)
    header = f'# 1 "projects/p/{name}"\n# 1 "x/include/<b>.h" 1\nx\n# 2 "projects/p/{name}" 2\n'
    spawns = [_spawn(paths[0], digest="d"), replace(_spawn(paths[1], seconds=1.0), start=1.0)]
    report = _report([_record("<i>cell", *paths)], spawns, {"d": header.encode()})
    page = _page(report)
    assert '<rect class="critical"' in page
    parsed = _parsed(page)
    assert {"script", "i", "b", "link", "img", "iframe"}.isdisjoint(parsed.tags)
    assert {"svg", "title", "table"} <= set(parsed.tags)
    assert "\u202e" not in page
    assert "<script>alert('&\"')</script>\\u202e\\u000a.cu" in "".join(parsed.text)
    assert all(sign not in page for sign in ("://", "url(", "@import", "src=", "href="))


def test_what_is_wide_scrolls_by_itself() -> None:
    """So the page does not, on a phone; where a browser was at hand, it was 380 pixels wide in a window of 380."""
    phases = _phases("1", "80")
    spawns = [replace(_spawn(path, seconds=1.0), start=float(at)) for at, path in enumerate(phases)]
    page = _page(_report([_record("x", *phases)], spawns))
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    body = page.partition("<body>")[2]
    pieces = re.split(r'<div class="wide[^"]*" tabindex="0">(.*?)</div>', body, flags=re.DOTALL)
    assert sum("<table" in piece or "<svg" in piece for piece in pieces[1::2]) == 5
    assert [piece for piece in pieces[::2] if "<table" in piece or "<svg" in piece or "<pre" in piece] == []


def test_same_build_gives_the_same_page() -> None:
    phases = [_phases(configuration, "80", "90") for configuration in ("1", "2")]
    records = [_record("x", *phases[0]), _record("y", *phases[1])]
    spawns = [_spawn(path, seconds=1.0) for actions in phases for path in actions]
    pages = {_page(_report(records, order)) for order in (spawns, spawns[::-1])}
    assert len(pages) == 1
    _parsed(pages.pop())


def test_pictures_come_first_and_then_the_tables() -> None:
    phases = _phases("1", "80")
    spawns = [replace(_spawn(path, seconds=1.0), start=float(at)) for at, path in enumerate(phases)]
    page = _page(_report([_record("x", *phases)], spawns))
    titles = ["The matrix", "The time line", "Variants", "Actions by kind", "All actions"]
    places = [page.index(f"<h2>{title}</h2>") for title in titles]
    assert places == sorted(places)
    assert page.count("<svg") == 2
    assert places[2] > page.rindex("</svg>")


def test_time_line_is_drawn() -> None:
    phases = _phases("1", "80")
    spawns = [
        replace(_spawn(phases[0], seconds=2.0), start=100.0),
        replace(_spawn(phases[2], seconds=6.0), start=102.0),
    ]
    page = _page(_report([_record("x", *phases)], spawns))
    parsed = " ".join("".join(_parsed(page).text).split())
    assert '<rect class="bar" x="0.0" y="22" width="249.0"' in page
    assert '<rect class="critical" x="250.0" y="22" width="749.0"' in page
    assert (
        "device code to PTX, sm_80 (CudaDeviceCompile), of a.cu, for x: from 2.00 s on, 6.00 s; on the critical path"
        in parsed
    )
    assert "It is 6.0 of 8.0 s." in parsed
    assert "No action ran, or Bazel did not say when." in _page(_report([_record("x", *phases)], []))


def test_every_kind_of_action_has_words_of_its_own() -> None:
    """Those of a backend differ, so that a picture tells actions apart; in the tables the mnemonic is beside them."""
    for ways in ({"cuda", "cuda-full", "cuda-needed", "cuda-link"}, {"hip"}, {"cxx", "cxx-text"}):
        words = [phase.words for phase in phases().values() if ways & {*phase.ways}]
        assert len({*words}) == len(words)
    assert all(phase.words for phase in phases().values())
    parsed = _parsed(_page(_report([_record("x", *_phases("1", "80"))], [])))
    texts = [text.strip() for text in parsed.text]
    assert texts.count("device code to PTX") == 2
    assert texts.count("CudaDeviceCompile") == 2


@pytest.mark.parametrize(
    ("seconds", "points"),
    [
        (0.0, [0.0]),
        (7.0, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
        (7.5, [0, 2, 4, 6]),
        (3600.0, [0, 1000, 2000, 3000]),
    ],
)
def test_ticks(seconds: float, points: list[float]) -> None:
    assert ticks(seconds) == points


def test_page_of_nothing() -> None:
    _parsed(_page(_report([], [])))
    _parsed(_page(_report([_record("torch-universal")], [])))


@pytest.mark.parametrize("name", ["report.txt", "report", ".html", "report.HTML"])
def test_name_of_another_kind_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / name
    assert __main__.main(["build", str(tmp_path), "--report", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"error[E200]: argument --report: `{path}` does not end in .html\n")
    assert not path.parent.exists()


def _refused(tmp_path: Path, page: Path) -> DriverError:
    with pytest.raises(DriverError) as caught:
        building.build(tmp_path, [], Releases(), Output(), building.Options(report=page))
    return caught.value


def test_place_that_holds_no_report_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    (tmp_path / "a.html").mkdir()
    assert _refused(tmp_path, tmp_path / "a.html").diagnostics[0].code is Code.FOREIGN_FILE
    (tmp_path / "package.json").touch()
    assert "package.json exists" in _refused(tmp_path, tmp_path / "package.html").diagnostics[0].message
    (tmp_path / "file").touch()
    assert "cannot make" in _refused(tmp_path, tmp_path / "file" / "b.html").diagnostics[0].message
    assert _refused(tmp_path, tmp_path / "new" / "c.html").diagnostics[0].code is Code.NO_MANIFEST
    assert (tmp_path / "new").is_dir()


def test_builds_without_a_report_do_not_load_what_makes_it() -> None:
    program = (
        "import sys; import py_driver.building.build, py_driver.cli.build;"
        "print(sorted({'jinja2', 'py_driver.reporting.report'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
