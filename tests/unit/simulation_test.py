"""The simulation of large builds: against what was measured, and its tables in docs/remote.md."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

simulation = importlib.import_module("simulation")

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "remote.md"
_BEGIN, _END = "<!-- generated: simulation -->\n", "\n<!-- end -->"


def test_the_tables_are_fresh() -> None:
    text = _PAGE.read_text(encoding="utf-8")
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    fresh = f"{before}{_BEGIN}\n{simulation.table()}{_END}{after}"
    if os.environ.get("UPDATE_EXPECTED") == "1":
        _PAGE.write_text(fresh, encoding="utf-8")
    assert text == fresh


def test_builds_that_were_measured() -> None:
    found = simulation.validated()
    assert {kernel for kernel, *_ in found} == {"cub", "gemm", "light", "light_torch", "norm"}
    assert all(0.7 < simulated / measured < 1.1 for _, _, measured, simulated in found)


def test_more_workers_are_never_slower_and_never_faster_than_the_work() -> None:
    for one in simulation.simulated().values():
        assert list(one.seconds) == sorted(one.seconds, reverse=True)
        for count, seconds in zip(simulation.WORKERS, one.seconds, strict=True):
            assert seconds * count >= 0.99 * one.work


def test_a_report_becomes_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "DATA", tmp_path / "data.json")
    bars = [{"section": "s", "source": "a.cu", "mnemonic": "CudaFrontend", "arch": None, "seconds": 1.234}]
    report = tmp_path / "report.json"
    report.write_text(simulation.json.dumps({"timeline": {"seconds": 2.0, "bars": bars}}), encoding="utf-8")
    simulation.measure("k", "1", report)
    assert simulation.read_data() == {"k": {"1": {"seconds": 2.0, "actions": {"s|a.cu|CudaFrontend|": 1.23}}}}
