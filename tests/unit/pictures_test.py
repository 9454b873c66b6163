"""All pictures that we generate: every shape and text is within the view box, whatever the figures and names are."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from drawn import boxes, outside, pictures, text_width

from py_driver.actions.executed import Did, VariantActions
from py_driver.authoring.benchmark import Benchmarks
from py_driver.authoring.picture import picture as bench_picture
from py_driver.authoring.roofline import roofline
from py_driver.inspecting.size import Library, Piece, library_of
from py_driver.inspecting.size_picture import Tile, squarified
from py_driver.inspecting.size_picture import picture as size_picture
from py_driver.reporting import svg
from py_driver.reporting.report import Action, Part, Report, Total
from py_driver.reporting.report_page import as_html
from py_driver.reporting.timeline import Bar, Timeline
from py_driver.resources import resource
from py_driver.system.elf import mapped
from py_driver.tuning.picture import picture as tuning_picture
from py_driver.tuning.records import CORRECT, Record, Records
from py_driver.tuning.space import Space

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
page = importlib.import_module("page")

LONG = "mixed_precision_gemm_with_an_epilogue_of_its_own"


def _cut(text: str) -> list[str]:
    """What stands outside of a page's pictures."""
    found = pictures(text)
    assert found
    return [box.name for picture in found for box in outside(picture)]


@pytest.mark.parametrize("image", sorted((ROOT / "docs" / "images").glob("*.svg")), ids=lambda image: image.stem)
def test_a_picture_of_the_pages_shows_all(image: Path) -> None:
    assert _cut(image.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "shape",
    [
        '<rect x="90" y="10" width="11" height="5"/>',
        '<rect x="-1" y="10" width="10" height="5"/>',
        '<line x1="0" x2="0" y1="0" y2="101"/>',
        '<polyline points="1,1 50,-3"/>',
        '<path d="M10 10v95"/>',
        '<text x="60" y="20">WWWW</text>',
        '<text x="10" y="20" text-anchor="end">www</text>',
        '<text x="50" y="20" text-anchor="middle">wwwwwwwwwwww</text>',
        '<text x="2" y="5">l</text>',
        '<g><text class="large" x="2" y="80">wwwwww</text></g>',
        '<text x="80" y="20" transform="rotate(-60 80 20)">wwwwww</text>',
    ],
)
def test_what_is_cut_is_found(shape: str) -> None:
    style = "<style>text{font:12px sans-serif}.large{font-size:24px;font-weight:bold}</style>"
    assert len(_cut(f'<svg viewBox="0 0 100 100">{style}{shape}</svg>')) == 1


def test_narrow_letters_are_narrow() -> None:
    narrow = '<svg viewBox="0 0 40 20"><style>text{font:12px sans-serif}</style><text x="1" y="15">illilli</text></svg>'
    assert _cut(narrow) == []


@pytest.mark.parametrize("bold", [False, True])
def test_no_character_is_wider_than_what_is_reserved_for_it(bold: bool) -> None:  # noqa: FBT001  (a case)
    for sign in map(chr, range(32, 127)):
        assert text_width(sign, 10, bold=bold) <= svg.text_width(sign, 10, bold=bold) + 1e-9, sign


def _cost(cpu: float) -> dict[str, Any]:
    return {"cpu": cpu, "wall": 1.0, "actions": 1}


def _results(ratios: Sequence[float], peer: str) -> dict[str, Any]:
    rows = {row: (_cost(1.0), _cost(ratio)) for row, ratio in zip(page._SUMMED, ratios, strict=True)}  # noqa: SLF001
    columns = {
        page.SPLIT: {row: pair[0] for row, pair in rows.items()},
        peer: {row: pair[1] for row, pair in rows.items()},
    }
    return {"light_torch": columns, "norm": {}}


@pytest.mark.parametrize("peer", ["ninja", "ninja + a_compiler_cache_with_a_long_name"])
@pytest.mark.parametrize(
    "ratios", [(1, 1, 1, 1), (0.9, 1.1, 3, 39.6), (1e-4, 0.02, 1, 1), (2, 8.9, 622, 1e6), (1e-3, 1e3, 1, 2)]
)
def test_a_summary_shows_every_ratio(ratios: Sequence[float], peer: str) -> None:
    results = _results(ratios, peer)
    summary = page.summary(results)
    assert _cut(summary) == []
    assert _cut(page.plot("light_torch", results["light_torch"])) == []
    [drawn] = pictures(summary)
    words = ["".join(text.itertext()) for text in drawn.iter("text")]
    assert "1 = peer" in words
    assert any("logarithmic" in text for text in words)
    lengths = [float(bar.attrib["width"]) for bar in drawn.iter("rect")][:4]
    powers = [abs(math.log2(ratio)) for ratio in ratios]
    pixels = max(lengths) / (max(powers) or 1)
    assert lengths == pytest.approx([power * pixels for power in powers], abs=0.1)


def _timed(median: float) -> dict[str, Any]:
    return {"median_us": median, "interval_us": [median * 0.99, median * 1.01], "runs": 9, "method": "cupti"}


@pytest.mark.parametrize("names", [("A.x", "A.y", "B.z"), (f"Benchmark.{LONG}", f"{LONG.upper()}.x", "B")])
@pytest.mark.parametrize("ratios", [(0.5, 1.0, 2.0), (0.001, 0.01, None), (240.0, 12345.0, 1.0), (None, None, None)])
def test_a_picture_of_benchmarks_shows_all(names: Sequence[str], ratios: Sequence[float | None]) -> None:
    workloads = [
        {"workload": name, "verified": True, "times": _timed(10)} | ({"reference": _timed(10 * ratio)} if ratio else {})
        for name, ratio in zip(names, ratios, strict=True)
    ]
    machine = {"gpu": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "pytorchVersion": "2.13.0+cu130"}
    drawn = bench_picture(Benchmarks(machine=machine, unique_id="_x", workloads=tuple(workloads)))
    assert _cut(drawn) == []
    [root] = pictures(drawn)
    words = {"".join(text.itertext()) for text in root.iter("text")}
    assert ({"1 = reference", "times as fast as the reference (linear scale)"} <= words) == any(ratios)


@pytest.mark.parametrize("names", [("A.x", "A.y", "B.z"), (f"Benchmark.{LONG}", f"{LONG.upper()}.x", "B")])
@pytest.mark.parametrize("flops", [(1, 1e3, 1e12), (5e6, 5e6, 5e6), (1e-3, 1e15, 7)])
def test_a_roofline_shows_all(names: Sequence[str], flops: Sequence[float]) -> None:
    workloads = tuple(
        {"workload": name, "times": _timed(10), "bytes": 1e6, "flops": count, "dtype": dtype}
        for name, count, dtype in zip(names, flops, ("float16", "bfloat16", "int8"), strict=True)
    )
    machine = {"gpu": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "pytorchVersion": "2.13.0+cu130"}
    peaks = {"copy": 4e12, "float16": 7.4e14, "bfloat16": 7.5e14, "int8": 1.5e15}
    drawn = roofline(Benchmarks(machine=machine, unique_id="_x", workloads=workloads), peaks)
    assert _cut(drawn) == []
    [root] = pictures(drawn)
    assert sum("rx" in dot.attrib for dot in root.iter("rect")) == len(names)


def _space(names: Sequence[str], sizes: Sequence[str], cases: int) -> Space:
    return Space(
        name="softmax",
        section="s",
        workload="S.s",
        header="",
        configs="",
        parameters=tuple(names),
        values=tuple((1, 1024) for _ in names),
        constraints=(),
        default=tuple(1 for _ in names),
        sizes=tuple(sizes),
        cases=tuple(tuple(10**6 + at for _ in sizes) for at in range(cases)),
        key="",
    )


@pytest.mark.parametrize("cases", [1, 12])
@pytest.mark.parametrize(
    ("names", "sizes"), [(("V",), ("n",)), ((LONG, LONG.upper()), ("batch", "heads", LONG)), (("A", "B"), ("x", "y"))]
)
@pytest.mark.parametrize("outcome", [CORRECT, "correctness"])
def test_a_picture_of_tuning_shows_all(names: Sequence[str], sizes: Sequence[str], cases: int, outcome: str) -> None:
    space = _space(names, sizes, cases)
    found = {
        (config, case): Record(outcome=CORRECT if not at else outcome, us=10.0**at, interval=(1, 1), runs=3)
        for at, config in enumerate(space.configurations)
        for case in space.cases
    }
    machine = {"gpu": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"}
    assert _cut(tuning_picture(space, Records(machine=machine, sources="x", found=found))) == []
    assert _cut(tuning_picture(space, Records(machine=machine, sources="x", found={}))) == []


def _report(variants: Sequence[str], source: str, seconds: float) -> Report:
    """A report with two actions for each variant; the first one is shared."""
    actions = tuple(
        Action(
            source=source,
            section=LONG,
            mnemonic="CudaDeviceFrontend",
            arch="sm_103a",
            variants=tuple(
                Part(variant=variant, did=did, seconds=seconds, how="linux-sandbox", why=())
                for variant, did in ((variants[0], Did.RUN), (other, Did.SHARED))
            ),
        )
        for other in variants[1:] or [variants[0]]
    )
    bar = Bar(
        source=source,
        section=LONG,
        mnemonic="CudaDeviceFrontend",
        arch="sm_103a",
        variant=variants[0],
        start=0.0,
        seconds=seconds,
        lane=0,
        critical=True,
    )
    return Report(
        name="p",
        variants=tuple(
            VariantActions(variant=variant, directory="d", run=1, shared=1, cached=0, seconds=seconds)
            for variant in variants
        ),
        actions=actions,
        sources=(),
        totals={"CudaDeviceFrontend": Total(run=1, shared=1, cached=0, seconds=seconds)},
        timeline=Timeline(seconds=seconds, lanes=1, critical=seconds, bars=(bar,)),
    )


@pytest.mark.parametrize("seconds", [0.0, 0.07, 7.0, 70.0, 70000.0])
@pytest.mark.parametrize("source", ["a.cu", f"csrc/kernels/{LONG}/{LONG.upper()}.cu"])
@pytest.mark.parametrize(
    "variants", [["x"], ["torch213-cxx11-cu130-x86_64-linux", "torch215-cxx11-cu132-aarch64-linux-and-more", "WWW"]]
)
def test_the_pictures_of_a_report_show_all(variants: Sequence[str], source: str, seconds: float) -> None:
    drawn = as_html(_report(variants, source, seconds), resource("report.html.j2"))
    assert len(pictures(drawn)) == 2
    assert _cut(drawn) == []
    assert all(list(boxes(picture)) for picture in pictures(drawn))


def _library(sizes: Sequence[int], names: Sequence[str]) -> Library:
    """A library with kernels for several architectures, and sections."""
    head = Piece(".nv_fatbin", "device code", "SASS", "10.0a", 0, "", "code", 0, 0, exact=True)
    pieces = [
        head._replace(arch=arch, image=number, symbol=name, stored=size, size=size)
        for number, arch in enumerate(("8.0", "10.0a"))
        for size, name in zip(sizes, names, strict=False)
    ]
    pieces.append(Piece(f".{LONG}", "data", "", "", -1, "", "", sizes[0], sizes[0], exact=True))
    return Library(sum(piece.stored for piece in pieces), tuple(pieces), ())


@pytest.mark.parametrize("names", [("k", "l", "m"), (LONG, f"{LONG.upper()}<{LONG}>", "W")])
@pytest.mark.parametrize("sizes", [(1,), (1000, 1000, 1000), (10**9, 1, 1), (10**9, 10**6, 10**3), (0, 5, 0)])
def test_a_picture_of_sizes_shows_all(names: Sequence[str], sizes: Sequence[int]) -> None:
    drawn = size_picture([_library(sizes, names)], f"_{LONG}_{LONG}_{LONG}.abi3.so")
    assert _cut(drawn) == []
    [root] = pictures(drawn)
    assert all(float(shape.attrib["width"]) > 0 for shape in root.iter("rect"))


@pytest.mark.parametrize("name", ["gpu", "hip", "good", "good_sectionless"])
def test_a_picture_of_a_library_has_areas_in_proportion(name: str) -> None:
    path = ROOT / "tests" / "abi" / "libraries" / f"{name}.so"
    with mapped(path) as elf:
        library = library_of(elf)
    assert _cut(size_picture([library], path.name)) == []
    sizes: dict[str, int] = {}
    for piece in library.pieces:
        sizes[piece.kind] = sizes.get(piece.kind, 0) + piece.stored
    tiles = squarified(sizes.items(), Tile("", 0, 0, 0, 960, 560))
    assert {tile.name: tile.stored for tile in tiles} == {kind: size for kind, size in sizes.items() if size}
    for tile in tiles:
        assert tile.width * tile.height == pytest.approx(960 * 560 * tile.stored / library.size)
        assert -1e-9 <= tile.left <= tile.left + tile.width <= 960 + 1e-9
        assert -1e-9 <= tile.top <= tile.top + tile.height <= 560 + 1e-9
    for tile in tiles:
        for other in tiles:
            apart = (
                tile.left + tile.width <= other.left + 1e-6
                or other.left + other.width <= tile.left + 1e-6
                or tile.top + tile.height <= other.top + 1e-6
                or other.top + other.height <= tile.top + 1e-6
            )
            assert tile is other or apart
