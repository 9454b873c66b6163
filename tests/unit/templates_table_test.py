"""The records of the templates on a GPU, and the table that is made of them."""

from __future__ import annotations

from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import templates

BENCH = Path(templates.__file__).parent


def record(*workloads: dict[str, Any], **tests: int) -> dict[str, Any]:
    machine = {"gpu": "G", "pytorchVersion": "2.11", "backend": "CUDA 13.0"}
    return {"date": "2026-11-29", "tests": tests, "machine": machine, "workloads": [*workloads]}


def test_a_template_has_its_tests_once_and_a_row_for_each_workload() -> None:
    fast = {"name": "A.x", "us": 10.0, "reference_us": 20.0, "of_peak": 0.931, "launch_us": 8.04}
    records = {
        "one": record(fast, {"name": "A.y", "problem": "wrong"}, passed=8, failed=1, skipped=2),
        "no-workload": {"date": "2026-11-29", "tests": {"passed": 3}},
    }
    head, *rows = templates.rows(records)
    assert rows == [
        ["one", "8 of 9", "A.x", "10.0", "20.0", "2.00", "93%", "8.0"],
        ["", "", "A.y", "failed", "", "", "", ""],
        ["no-workload", "3 of 3", "", "", "", "", "", ""],
    ]
    assert {len(row) for row in rows} == {len(head)}
    assert templates.machine(records) == "G, torch 2.11, CUDA 13.0, 2026-11-29"


def test_no_program_has_the_name_of_an_installed_package() -> None:
    assert not {path.stem for path in BENCH.glob("*.py")} & packages_distributions().keys()
