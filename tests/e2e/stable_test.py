"""The table of stable equivalents: each row is compiled with the headers of the first and the last torch."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import tomli

from py_driver.matrix.releases import Releases
from py_driver.resources import resource

ROOT = Path(__file__).parents[2]


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.10", "2.15"])
def test_rows_compile_from_the_release_on_that_they_name(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "rules" / "private" / "policy")
    stable: Any = importlib.import_module("stable")
    table = tomli.loads(resource("stable_abi.toml"))
    # What people do instead compiles with both, where it is code.
    rows = [*table["use"], *({**row, "since": "2.10"} for row in table["none"] if "check" in row)]
    include = stable.headers_of(Releases().lock.parts["torch"][version], tmp_path / "tree")
    numbers = tuple(map(int, version.split(".")))
    wanted = {
        number
        for number, row in enumerate(rows, 1)
        if row["since"] and tuple(map(int, row["since"].split("."))) <= numbers
    }
    assert stable.compiling(rows, include, version) == wanted
