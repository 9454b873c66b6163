"""The benchmark: what its page says of results that are there, missing or failed, and the chain that it works out."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

_ROOT = Path(__file__).resolve().parents[2]
benchmark, columns, page = (importlib.import_module(name) for name in ("benchmark", "columns", "page"))

_OURS, _PEER = "ours, split", "ninja"
_MISSING = [
    *(
        f"- {name}: missing (bar: {bar} times {what} than the best peer)"
        for name, bar, what in [
            ("light_torch, cold matrix", 3, "less CPU"),
            ("light_torch, an architecture more", 20, "less CPU"),
            ("light_torch, a torch version more", 2, "less CPU"),
            ("light_torch, comment in a shared file", 0.7, "less CPU"),
            ("norm, an architecture more", 3, "less CPU"),
            ("norm, cold matrix", 1.8, "less CPU"),
            ("norm, a torch version more", 20, "less CPU"),
            ("norm, critical path of one source", 2, "fewer seconds"),
            ("light, cold matrix", 0.9, "less CPU"),
        ]
    ),
    "- norm, another directory: missing (bar: 0 compile actions)",
    "- norm, no change: missing (bar: 2 s)",
]


def _cost(cpu: float, wall: float = 1.0, actions: int = 1) -> dict[str, Any]:
    return {"cpu": cpu, "wall": wall, "actions": actions}


def _kernel() -> dict[str, Any]:
    return {
        _OURS: {
            "cold matrix": _cost(10),
            "no change": _cost(1, wall=1.5, actions=0),
            "a torch version more": _cost(1),
            "another directory": _cost(1, actions=0),
            "same bytes from two directories": {"same": True},
            "critical path of one source": _cost(4),
        },
        _PEER: {
            "cold matrix": _cost(20),
            "no change": _cost(0, wall=0, actions=0),
            "a torch version more": {"error": "ninja ended with 1"},
            "another directory": _cost(20, actions=9),
            "same bytes from two directories": {"same": False},
            "critical path of one source": _cost(9),
        },
        "cmake": {"cold matrix": _cost(19), "a torch version more": _cost(30)},
    }


def _results(**kernels: dict[str, Any]) -> dict[str, Any]:
    where = {"date": "2026-01-01", "cores": 2, "processor": "one", "memory-gib": 8, "system": "Linux"}
    where |= {"variants": ["a", "b"], "programs": {"ninja": "1.13"}}
    return {"machines": dict.fromkeys(kernels, where), "more": "c", **kernels}


def test_without_results_every_bar_is_missing() -> None:
    assert page.bars({}) == _MISSING


def test_a_failed_row_counts_as_missing_for_its_bar() -> None:
    failed = {"error": "driver ended with 70"}
    kernel = {_OURS: dict.fromkeys(_kernel()[_OURS], failed), _PEER: _kernel()[_PEER]}
    assert page.bars({"norm": kernel}) == _MISSING


def test_bars_name_the_best_peer_and_say_what_is_reached() -> None:
    light = {_OURS: {"cold matrix": _cost(20)}, _PEER: {"cold matrix": _cost(62)}}
    assert page.bars({"norm": _kernel(), "light_torch": light}) == [
        "- light_torch, cold matrix: 3.1 times less CPU than the best peer, ninja (bar: 3): reached",
        *_MISSING[1:5],
        "- norm, cold matrix: 1.9 times less CPU than the best peer, cmake (bar: 1.8): reached",
        "- norm, a torch version more: 30.0 times less CPU than the best peer, cmake (bar: 20): reached",
        "- norm, critical path of one source: 2.2 times fewer seconds than the best peer, ninja (bar: 2): reached",
        _MISSING[8],
        "- norm, another directory: 0 compile actions (bar: 0): reached",
        "- norm, no change: 1.5 s (bar: 2 s): reached",
    ]


def test_bars_that_are_not_reached_say_so() -> None:
    kernel = _kernel()
    kernel[_OURS] |= {"no change": _cost(3, wall=2.1), "another directory": _cost(3, actions=2)}
    kernel["cmake"] |= {"cold matrix": _cost(17)}
    said = page.bars({"norm": kernel})
    assert [line.rpartition(": ")[2] for line in (said[5], said[9], said[10])] == ["not reached"] * 3


def test_a_table_has_missing_failed_and_compared_cells() -> None:
    assert page.table(_kernel()) == [
        "|  | ours, split | ninja | cmake | best peer / split |",
        "|---|---:|---:|---:|---:|",
        "| cold matrix | 10.0 (1.0; 1) | 20.0 (1.0; 1) | 19.0 (1.0; 1) | 1.9 |",
        "| no change | 1.0 (1.5; 0) | 0.0 (0.0; 0) | missing | 0.0 |",
        "| a torch version more | 1.0 (1.0; 1) | failed | 30.0 (1.0; 1) | 30.0 |",
        "| another directory | 1.0 (1.0; 0) | 20.0 (1.0; 9) | missing | 20.0 |",
        "| same bytes from two directories | yes | no | missing | - |",
        "| critical path of one source | 4.0 (1.0; 1) | 9.0 (1.0; 1) | missing | 2.2 |",
    ]


def test_the_page_keeps_what_stands_around_its_tables() -> None:
    text = f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n"
    written = page.page(text, _results(norm=_kernel()))
    assert written.startswith(f"before\n{page.BEGIN}\n")
    assert written.endswith(f"\n{page.END}\nafter\n")
    assert "\nold\n" not in written
    assert "### norm: " in written
    assert "(images/performance_norm.svg)" in written
    assert page.page(written, _results(norm=_kernel())) == written


def test_a_plot_is_xml_with_a_bar_for_each_column_and_row() -> None:
    root = ET.fromstring(page.plot("norm", _kernel()))  # noqa: S314  (what was just written)
    rectangles = root.findall("{*}rect")
    assert len(rectangles) == 3 + 3 * 5  # the legend; five rows have seconds
    assert all(float(rectangle.attrib["width"]) >= 0 for rectangle in rectangles)
    said = [text.text for text in root.findall("{*}text")]
    assert said.count("failed") == 1
    assert said.count("missing") == 3


def test_the_summary_has_a_bar_on_the_side_of_who_took_less() -> None:
    light = {_OURS: {"cold matrix": _cost(20)}, _PEER: {"cold matrix": _cost(10)}}
    root = ET.fromstring(page.summary(_results(norm=_kernel(), light=light)))  # noqa: S314  (likewise)
    bars = [
        (rectangle.attrib["fill"], float(rectangle.attrib["x"]), float(rectangle.attrib["width"]))
        for rectangle in root.findall("{*}rect")
    ]
    assert len(bars) == 2 * 4
    middle = bars[0][1]
    assert [bar[1] < middle - 1 for bar in bars] == [False] * 4 + [True] + [False] * 3
    assert [bar[2] > 0 for bar in bars] == [True, False, True, False, True, *[False] * 3]
    lines = [float(line.attrib["x1"]) for line in root.findall("{*}line")]
    assert bars[4][1] == pytest.approx(lines[0], abs=0.1)  # half of ours is where the scale has 0.5
    assert lines[1] == pytest.approx(middle, abs=0.1)
    assert bars[4][0] != bars[0][0]
    said = [text.text for text in root.findall("{*}text")]
    assert said.count("missing") == 5
    assert {"1.9 cmake", "30.0 cmake", "0.5 ninja"} <= set(said)


def test_every_plot_is_of_the_results() -> None:
    assert set(page.IMAGES.glob("performance_*")) == set(page.written()) - {page.PAGE}


def test_a_plot_of_failures_alone_is_drawn_too() -> None:
    ET.fromstring(page.plot("norm", {_PEER: {"cold matrix": {"error": "OSError"}}}))  # noqa: S314  (likewise)


_TEXTS = [
    ("CudaPreprocess", "Preprocessing for sm_80 csrc/a.cu for //p:p", 9.0),
    ("CudaPreprocess", "Preprocessing for sm_90 csrc/a.cu for //p:p", 1.5),
]
_DEVICE = [
    ("CudaDeviceCompile", "Compiling for sm_80 csrc/a.cu for //p:p", 3.0),
    ("CudaAssemble", "Assembling for sm_80 csrc/a.cu for //p:p", 2.0),
    ("CudaDeviceCompile", "Compiling for sm_90 csrc/a.cu for //p:p", 4.0),
    ("CudaAssemble", "Assembling for sm_90 csrc/a.cu for //p:p", 2.0),
    ("CudaFatbinary", "Bundling the code of csrc/a.cu for //p:p", 0.5),
    ("CudaDeviceCompile", "Compiling for sm_90 csrc/aa.cu for //p:p", 100.0),
    ("KernelCxxCompile", "Compiling binding.cpp for //p:binding", 100.0),
]


def _host(frontend: float, compiler: float = 1.0) -> list[tuple[str, str, float]]:
    return [
        ("CudaPreprocess", "Preprocessing csrc/a.cu for //p:p", 1.0),
        ("CudaFrontend", "Reading csrc/a.cu for //p:p", frontend),
        ("CudaHostCompile", "Compiling the host code of csrc/a.cu for //p:p", compiler),
    ]


def test_the_longest_chain_goes_through_the_slowest_architecture() -> None:
    assert columns.longest_chain([*_DEVICE, *_host(2.0)], "csrc/a.cu") == (7.5, 4)
    assert columns.longest_chain([*_TEXTS, *_DEVICE, *_host(2.0)], "csrc/a.cu") == (9.0 + 3.0 + 2.0 + 0.5, 4)


@pytest.mark.parametrize(("frontend", "whole"), [(20.0, 26.0), (1.0, 10.0)])
def test_the_longest_chain_can_be_that_of_the_host(frontend: float, whole: float) -> None:
    """Its code is compiled after cudafe++ has read it, and cicc has written what launches kernels."""
    assert columns.longest_chain([*_DEVICE, *_host(frontend, 5.0)], "csrc/a.cu") == (whole, 3)


@pytest.mark.parametrize(("frontend", "whole", "counts"), [(2.0, 27.0, 7), (50.0, 53.5, 4)])
def test_with_torch_all_wait_for_every_front_end(frontend: float, whole: float, counts: int) -> None:
    read = [("CudaDeviceFrontend", f"Reading for sm_{arch} csrc/a.cu for //p:p", 19.0) for arch in (80, 90)]
    share = ("CudaDeviceShare", "Sharing the bitcode of csrc/a.cu for //p:p", 0.0)
    check = ("CudaFallback", "Checking the code of csrc/a.cu for //p:p", 0.5)
    actions = [*_DEVICE, *read, share, check, *_host(frontend, 2.0)]
    assert columns.longest_chain(actions, "csrc/a.cu") == (whole, counts)


def test_nvcc_as_a_whole_is_a_chain_of_one() -> None:
    whole = ("KernelCudaCompile", "Compiling csrc/a.cu for //p:p", 7.0)
    assert columns.longest_chain([whole], "csrc/a.cu") == (7.0, 1)


@pytest.mark.parametrize("lacking", range(5))
def test_a_chain_with_a_gap_is_refused(lacking: int) -> None:
    actions = [*_DEVICE[:lacking], *_DEVICE[lacking + 1 :], *_host(1.0)]
    with pytest.raises(ValueError, match=r"not all actions of csrc/a\.cu"):
        columns.longest_chain(actions, "csrc/a.cu")


class _Recorder:
    """A column that builds nothing and fails where it is told to."""

    name = _OURS

    def __init__(self, failing: str) -> None:
        self.failing = failing
        self.builds: list[str] = []

    def build(self, project: Path, variants: list[str]) -> int:
        self.builds.append(project.parent.name)
        if project.parent.name == self.failing:
            raise OSError(project)
        return len(variants)

    def alone(self, project: Path, variant: str) -> tuple[float, int]:
        assert "once_more" in next(iter(sorted(project.glob("csrc/*.cu")))).read_text()
        assert variant == "a"
        return 2.0, 5

    def digests(self, project: Path, variants: list[str]) -> dict[str, str]:
        return dict.fromkeys(variants, project.name)

    def cpu(self) -> float:
        return 0.0


@pytest.mark.parametrize("kernel", sorted(path.name for path in (_ROOT / "bench" / "projects").iterdir()))
def test_every_kernel_takes_every_change(kernel: str, tmp_path: Path) -> None:
    rows = benchmark.rows_of(_Recorder(""), kernel, tmp_path, ["a", "b"])
    assert not [row for row, entry in rows.items() if "error" in entry]
    assert rows["same bytes from two directories"] == {"same": True}
    assert rows["critical path of one source"] == _cost(2.0, 2.0, 5)
    assert "missing" not in "".join(page.bars({"norm": {_OURS: rows, _PEER: rows}})[9:])


def test_it_stops_after_the_last_row_that_is_wanted(tmp_path: Path) -> None:
    recorder = _Recorder("")
    rows = benchmark.rows_of(recorder, "light", tmp_path, ["a"], "comment in a shared file")
    assert list(rows) == ["cold matrix", "no change", "comment in a shared file"]
    assert len(recorder.builds) == 3


def test_a_row_that_fails_leaves_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = benchmark.rows_of(_Recorder("directory"), "light", tmp_path, ["a"])
    assert {row for row, entry in rows.items() if "error" in entry} == {"another directory"}
    assert rows["another directory"] == {"error": "OSError"}
    assert str(tmp_path) in capsys.readouterr().err
