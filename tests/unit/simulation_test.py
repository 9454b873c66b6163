"""The simulation of large builds, against what was measured."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

simulation = importlib.import_module("simulation")


def test_builds_that_were_measured() -> None:
    found = simulation.validated()
    assert {kernel for kernel, *_ in found} == {"cub", "gemm", "light", "light_torch", "norm"}
    assert all(0.7 < simulated / measured < 1.1 for _, _, measured, simulated in found)


def test_more_workers_are_never_slower_and_never_faster_than_the_work() -> None:
    for simulated in simulation.simulated().values():
        assert list(simulated.seconds) == sorted(simulated.seconds, reverse=True)
        for count, seconds in zip(simulation.WORKERS, simulated.seconds, strict=True):
            assert seconds * count >= 0.99 * simulated.work


def test_a_report_becomes_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "DATA", tmp_path / "data.json")
    bars = [{"section": "s", "source": "a.cu", "mnemonic": "CudaFrontend", "arch": None, "seconds": 1.234}]
    report = tmp_path / "report.json"
    report.write_text(simulation.json.dumps({"timeline": {"seconds": 2.0, "bars": bars}}), encoding="utf-8")
    simulation.measure("k", "1", report)
    assert simulation.read_data() == {"k": {"1": {"seconds": 2.0, "actions": {"s|a.cu|CudaFrontend|": 1.23}}}}
