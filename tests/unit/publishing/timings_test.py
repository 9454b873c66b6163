"""Reports of benchmarks: those of both programs, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from py_driver.publishing.timings import FASTER, SAME, SLOWER, figures

TIMES = {"timingResults": {"mean_ms": 0.5, "min_ms": 0.4, "iqr_ms": 0.1}}


def report(*results: dict[str, Any]) -> str:
    machine = {"gpu": "G | P", "pytorchVersion": "2.13", "backend": "CUDA"}
    return json.dumps({"machineInfo": machine, "results": results})


def test_workloads_without_times_are_left_out() -> None:
    found = figures(report({"workload": "a`b\nc", **TIMES}, {"workload": "failed", "problem": "no"}))
    assert found is not None
    assert found.machine == "G / P, torch 2.13, CUDA"
    assert [(timing.workload, timing.mean, timing.against) for timing in found.timings] == [("a'b c", 0.5, None)]
    assert figures(report({"workload": "failed"})) is None


@pytest.mark.parametrize(
    ("interval", "word", "speed"), [((900, 1100), FASTER, 2.0), ((480, 1100), SAME, 2.0), ((100, 300), SLOWER, 0.5)]
)
def test_reference_is_compared(interval: tuple[int, int], word: str, speed: float) -> None:
    times = {"median_us": 500, "interval_us": [490, 510]}
    reference = {"median_us": 500 * speed, "interval_us": list(interval)}
    found = figures(report({"workload": "w", **TIMES, "times": times, "reference": reference}))
    assert found is not None
    assert found.timings[0].as_json() == {
        "workload": "w",
        "mean-ms": 0.5,
        "min-ms": 0.4,
        "iqr-ms": 0.1,
        "median-ms": 0.5,
        "reference-median-ms": 0.5 * speed,
        "speed": speed,
        "verdict": word,
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "x", None])
def test_times_that_are_none(value: object) -> None:
    times = {"timingResults": {"mean_ms": value, "min_ms": 0.4, "iqr_ms": 0.1}}
    assert figures(report({"workload": "w", **times})) is None
    wrong = {"times": {"median_us": value, "interval_us": [1, 2]}, "reference": {"median_us": 1, "interval_us": [1, 2]}}
    assert figures(report({"workload": "w", **TIMES, **wrong})) is None
