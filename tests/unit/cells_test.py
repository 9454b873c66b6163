"""The records of what was built, loaded and run, and the table that is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cells

from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases

if TYPE_CHECKING:
    from pathlib import Path

CPU = "torch215-cxx11-cpu-x86_64-linux"


def test_a_later_step_stands_for_the_earlier_ones_and_a_new_record_for_an_old_one(tmp_path: Path) -> None:
    path = tmp_path / "cells.json"
    cells.record(path, "ran", [CPU, "torch-noarch", "torch213-cxx11-cpu-aarch64-linux"], "relu, H100")
    cells.record(path, "built", [CPU], "relu")
    cells.record(path, "built", [CPU], "row_sum")
    records = cells.read(path)
    assert list(records) == [CPU]
    assert [*records[CPU]] == ["built", "ran"]
    assert records[CPU]["built"]["on"] == "row_sum"
    rows = list(cells.table(records, [("2.15", "cxx11"), ("2.14", "cxx11")], {"cpu": "CPU", "cu130": "cu130"}))
    assert rows == [
        ["torch", "ABI", "CPU", "cu130"],
        ["2.15", "cxx11", "ran: relu, H100", ""],
        ["2.14", "cxx11", "", ""],
    ]


def test_what_has_no_date_is_a_statement() -> None:
    records = {CPU: {"built": {"on": "", "date": ""}}}
    assert list(cells.table(records, [("2.15", "cxx11")], {"cpu": "CPU"}))[1][2] == "(built)"


def test_what_the_driver_loaded_is_read_from_what_it_says() -> None:
    told = (
        f"loading {CPU} in torch 2.15.0 (cpu) ...\nloading {CPU} in torch 2.15.0 (cpu): done  [2.0 s]\n"
        "loading other in torch 2.15.0 (cpu): failed  [1.0 s]\n"
    )
    assert cells.loaded(told) == {CPU: "2.15.0"}


def test_the_records_are_of_releases_of_the_matrix_or_of_a_backend_of_ones_own() -> None:
    torches = {torch.version for torch in Releases().matrix.torch}
    for name, steps in cells.read().items():
        assert parse(name).torch in torches
        assert steps.keys() <= set(cells.STEPS)
        assert all(cell.keys() == {"on", "date"} for cell in steps.values())
