"""Timing: what events on a GPU mean, when a median is known, and when one thing is faster than another."""

from __future__ import annotations

import json
import math
import random
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest
from rules_torch_kernels.timing import Times, measure, spread, times_of_calls

from py_driver.authoring.benchmark import Benchmarks, _values, compared, times_of, with_shares
from py_driver.authoring.ceilings import rate_of, share_of
from py_driver.authoring.device import throttled_by
from py_driver.authoring.picture import picture
from py_driver.authoring.roofline import roofline
from py_driver.errors import Code, DriverError
from py_driver.publishing.timings import FASTER, SAME, SLOWER, verdict

if TYPE_CHECKING:
    from pathlib import Path

MARKER = "at::cuda::(anonymous namespace)::spin_kernel(long)"


def events(*groups: tuple[int, ...]) -> list[tuple[int, str, int]]:
    """What a profiler sees: before each group a flush and the marker, and both once more at the end."""
    found = []
    for group in (*groups, ()):
        found += [("Memset (Device)", 7000), (MARKER, 1), *(("kernel", member) for member in group)]
    return [(place, name, duration) for place, (name, duration) in enumerate(found)]


def test_a_process_that_ended_within_a_line(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for text, expected in {"": [], '{"a": 1}\n': [{"a": 1}], '{"a": 1}\n{"b"': [{"a": 1}]}.items():
        results.write_text(text)
        assert _values(results) == expected


def test_a_call_is_what_runs_between_the_flushes() -> None:
    assert spread(events((1000, 500), (2000,), (1200,), (2500,)), calls=2, rounds=2) == [[1.5, 1.2], [2.0, 2.5]]


def test_a_peer_without_work_on_the_gpu_leaves_the_times_of_the_others() -> None:
    samples = spread(events((1000, 500), (), (1200,), (2500,)), calls=2, rounds=2)
    assert samples == [[1.5, 1.2], [0, 2.5]]
    assert times_of_calls(samples, "cupti", 1) == [Times((1.5, 1.2), "cupti"), Times((), "none")]
    with pytest.raises(ValueError, match="a call ran nothing on the GPU"):
        times_of_calls(samples, "cupti", 2)
    assert times_of_calls([[0.0]], "host", 0) == [Times((0.0,), "host")]


@pytest.mark.parametrize("groups", [((1,),), ((1,), (1,), (1,))])
def test_other_events_are_no_times(groups: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="call"):
        spread(events(*groups), calls=2, rounds=1)


def test_the_interval_holds_the_median_in_95_of_100_cases() -> None:
    chance = random.Random(1)  # noqa: S311  (no secret)
    hits = 0
    for _ in range(2000):
        low, high = Times(tuple(chance.lognormvariate(0, 1) for _ in range(40)), "host").interval
        hits += low <= 1.0 <= high
    assert 0.94 <= hits / 2000 <= 0.985


def test_measuring_goes_on_until_the_median_is_known() -> None:
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1
        sum(range(2000))

    [times] = measure([count], "cpu")
    assert calls == len(times.samples) + 3
    assert times.known or len(times.samples) >= 100
    assert times.method == "host"


def test_medians_and_intervals() -> None:
    assert Times((3.0, 1.0, 2.0), "host").median == 2.0
    assert Times((4.0, 1.0, 2.0, 3.0), "host").median == 2.5
    assert not Times((1.0,) * 5, "host").known
    assert Times((1.0,) * 12, "host").known


def timed(median: float, low: float, high: float) -> dict[str, Any]:
    return {"median_us": median, "interval_us": [low, high], "runs": 9, "method": "cupti"}


@pytest.mark.parametrize(
    ("other", "expected"),
    [(timed(20, 19, 21), (2.0, FASTER)), (timed(5, 4, 6), (0.5, SLOWER)), (timed(11, 9.5, 12), (1.1, SAME))],
)
def test_faster_means_that_intervals_are_apart(other: dict[str, Any], expected: tuple[float, str]) -> None:
    assert verdict(timed(10, 9, 10), other) == expected


def workload(name: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  (JSON)
    return {
        "workload": name,
        "verified": True,
        "times": timed(10, 9, 11),
        "samples_us": [9.0, 10.0, 11.0, 30.0],
        **more,
    }


def benchmarks(*workloads: dict[str, Any]) -> Benchmarks:
    machine = {"gpu": "G & H", "backend": "CUDA 13.0", "pytorchVersion": "2.13", "os": "o", "cpu": "c"}
    return Benchmarks(machine=machine, unique_id="_x_cuda_0123456789ab", workloads=workloads)


def test_json_is_that_of_the_client_with_ours_beside_it() -> None:
    done = benchmarks(workload("A.x"), {"workload": "A.y", "verified": False, "problem": "wrong", "trace": "..."})
    assert done.wrong == ("A.y",)
    found = done.as_json()
    assert found["kernelCommitSha"] == "0123456789ab"
    assert found["results"][0]["timingResults"] == {
        "mean_ms": 0.015, "std_ms": pytest.approx(0.008689, abs=1e-6), "min_ms": 0.009, "max_ms": 0.03, "q1_ms": 0.01,
        "q3_ms": 0.011, "iqr_ms": 0.001, "outliers": 1, "iterations": 4,
    }  # fmt: skip
    assert found["results"][0]["times"]["median_us"] == 10
    assert found["results"][1] == {"workload": "A.y", "verified": False, "problem": "wrong"}


def test_an_earlier_result_to_compare_with(tmp_path: Path) -> None:
    file = tmp_path / "earlier.json"
    earlier = benchmarks(workload("A.x", times=timed(20, 19, 21)), workload("gone"))
    file.write_text(json.dumps(earlier.as_json()))
    both = compared(benchmarks(workload("A.x"), workload("new")), times_of(file))
    assert [row.get("base", {}).get("median_us") for row in both.workloads] == [20, None]


WRONG = [
    {"workload": "x", "times": {"median_us": 1, "interval_us": interval}} for interval in (None, [1], ["1", 2], [1, -1])
]


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"results": [1]}', '{"results": []}', "[" * 100000, "\xff"]
    + [json.dumps({"results": [result]}) for result in (*WRONG, {"workload": [], "times": {}})],
)
def test_what_is_no_earlier_result(tmp_path: Path, content: str) -> None:
    file = tmp_path / "earlier.json"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(DriverError) as caught:
        times_of(file)
    assert caught.value.diagnostics[0].code is Code.WRONG_TYPE


def test_rates_and_shares() -> None:
    peaks = {"copy": 4e12, "float16": 8e14}

    def shown(**says: Any) -> tuple[str, str]:  # noqa: ANN401  (what a workload says of itself)
        return rate_of(workload("x", **says), peaks), share_of(workload("x", **says), peaks)

    assert shown(bytes=20_000_000) == ("2.00 TB/s", "50%")
    assert shown(bytes=1000) == ("0.10 GB/s", "0%")
    assert shown(flops=2_000_000_000, dtype="float16") == ("200.00 TFLOP/s", "25%")
    assert shown(flops=2_000_000_000, bytes=4_000_000, dtype="float16") == ("200.00 TFLOP/s", "25%")
    assert shown(flops=2_000_000_000, bytes=20_000_000, dtype="float16") == ("2.00 TB/s", "50%")
    assert shown(flops=2_000_000, dtype="int8") == ("0.20 TFLOP/s", "")
    assert shown(flops=2_000_000, bytes=20_000_000, dtype="int8") == ("2.00 TB/s", "50%")
    assert shown() == ("", "")
    both = benchmarks(workload("A", bytes=20_000_000), workload("B"), {"workload": "C"})
    assert [entry.get("of_peak") for entry in with_shares(both, peaks).as_json()["results"]] == [0.5, None, None]


def test_roofline() -> None:
    peaks = {"copy": 4e12, "float16": 8e14, "int8": 1.6e15}
    product = workload("A.<x>", flops=2_000_000_000, bytes=4_000_000, dtype="float16")
    other = workload("B.y", flops=20_000_000, bytes=20_000_000, dtype="int8")
    left_out = [workload("C", bytes=1000), workload("D", flops=1, bytes=1, dtype="float64"), {"workload": "E"}]
    assert roofline(benchmarks(*left_out), peaks) == roofline(benchmarks(product), {}) == ""
    drawn = ET.fromstring(roofline(benchmarks(product, other, *left_out), peaks))  # noqa: S314  (our own)
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"float16: 800 TFLOP/s", "int8: 1600 TFLOP/s", "operations per byte; the slope is 4 TB/s"} <= {*texts}
    assert texts[-2:] == ["1  A.<x>: 200.00 TFLOP/s, 25% of the roof", "2  B.y: 2.00 TB/s, 50% of the roof"]
    dots = [
        rectangle.attrib for rectangle in drawn.iter("{http://www.w3.org/2000/svg}rect") if "rx" in rectangle.attrib
    ]
    [x, y], [other_x, other_y] = [(float(dot["x"]) + 4, float(dot["y"]) + 4) for dot in dots]
    # Both axes are logarithmic: 500 and 1 operations for each byte, 200 and 2 TFLOP/s.
    lines = [[float(part) for part in polyline.attrib["points"].replace(",", " ").split()]
             for polyline in drawn.iter("{http://www.w3.org/2000/svg}polyline")]  # fmt: skip
    [bend] = {line[2] for line in lines if line[3] == min(line[3] for line in lines)}
    assert (bend - other_x) / (x - other_x) == pytest.approx(math.log(400) / math.log(500), rel=1e-2)
    roof = next(line[3] for line in lines if line[2] != bend)
    assert (other_y - y) / (y - roof) == pytest.approx(math.log(200 / 2) / math.log(800 / 200), rel=1e-2)


def test_picture() -> None:
    fast, alone = workload("A.<x>", reference=timed(20, 19, 21)), workload("B.y")
    drawn = ET.fromstring(picture(benchmarks(fast, alone, {"workload": "C", "problem": "p"})))  # noqa: S314  (our own)
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    numbers = ["0", "0.5", "1", "1.5", "2", "times as fast as the reference (linear scale)", "1 = reference"]
    bars = ["A.<x>", "2.00x, 10.0 us", "B.y", "10.0 us"]
    assert texts == ["G & H, torch 2.13: speed against the reference", *numbers, *bars]
    assert len([*drawn.iter("{http://www.w3.org/2000/svg}rect")]) == 2


def test_throttling() -> None:
    assert throttled_by("0x0000000000000004") == []
    assert throttled_by("0x0000000000000060") == ["software thermal slowdown", "hardware thermal slowdown"]
    assert throttled_by("[N/A]") == []
